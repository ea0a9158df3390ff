// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <vector>

#include <nlohmann/json.hpp>

#include "http/profile_service.h"

namespace pillion::http {

// A service whose windows end when their time is over, when they are stopped, or when the test says so.
// Thread-safe.
class FakeService : public ProfileService {
 public:
  ServiceResult profile(const ProfileRequest& request, std::stop_token stop) override {
    std::unique_lock lock(mutex_);
    requests_.push_back(request);
    ++open_;
    changed_.notify_all();
    const auto start = std::chrono::steady_clock::now();
    const auto complete = [&] {
      return request.end_with_targets && request.targets_complete.stop_requested();
    };
    lock.unlock();  // a callback may come at once
    std::optional<std::stop_callback<std::function<void()>>> wake;
    wake.emplace(request.targets_complete, [this] { set([] {}); });
    lock.lock();
    changed_.wait_until(lock, stop, start + request.duration, [&] { return release_ || complete(); });
    last_window_ = std::chrono::steady_clock::now() - start;
    lock.unlock();
    wake.reset();
    lock.lock();
    --open_;
    ++ended_;
    if (stop.stop_requested()) ++stopped_;
    changed_.notify_all();
    if (error_) return tl::make_unexpected(*error_);
    ServiceReply reply;
    reply.empty_because = empty_because_;
    reply.body = body_.empty() ? std::string("profile of ") + to_string(request.type) : body_;
    return reply;
  }

  nlohmann::json status() override { return {{"state", "fake"}}; }
  MetricsSnapshot metrics() override {
    const std::lock_guard lock(mutex_);
    return metrics_;
  }
  Condition ready() override {
    const std::lock_guard lock(mutex_);
    return ready_;
  }
  Condition alive() override {
    const std::lock_guard lock(mutex_);
    return alive_;
  }

  void set_error(ServiceError error) {
    set([&] { error_ = std::move(error); });
  }
  void set_body(std::string body) {
    set([&] { body_ = std::move(body); });
  }
  void set_empty_because(std::string words) {
    set([&] { empty_because_ = std::move(words); });
  }
  void set_metrics(MetricsSnapshot metrics) {
    set([&] { metrics_ = std::move(metrics); });
  }
  void set_ready(Condition ready) {
    set([&] { ready_ = std::move(ready); });
  }
  void set_alive(Condition alive) {
    set([&] { alive_ = std::move(alive); });
  }
  void release_windows() {
    set([&] { release_ = true; });
  }

  // Each waits for up to 10 s until it is so.
  [[nodiscard]] bool wait_open(int count) {
    return wait([&] { return open_ == count; });
  }
  [[nodiscard]] bool wait_ended(int count) {
    return wait([&] { return ended_ == count; });
  }

  [[nodiscard]] int stopped() { return get(stopped_); }
  [[nodiscard]] std::chrono::nanoseconds last_window() { return get(last_window_); }
  [[nodiscard]] std::vector<ProfileRequest> requests() { return get(requests_); }

 private:
  template <typename Change>
  void set(Change change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  template <typename Value>
  Value get(const Value& value) {
    const std::lock_guard lock(mutex_);
    return value;
  }
  template <typename Predicate>
  bool wait(Predicate predicate) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), predicate);
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<ProfileRequest> requests_;
  std::optional<ServiceError> error_;
  std::string body_;
  std::string empty_because_;
  MetricsSnapshot metrics_;
  Condition ready_;
  Condition alive_;
  std::chrono::nanoseconds last_window_{0};
  int open_ = 0;
  int ended_ = 0;
  int stopped_ = 0;
  bool release_ = false;
};

}  // namespace pillion::http
