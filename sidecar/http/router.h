// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "http/access.h"
#include "http/metrics.h"
#include "http/parameters.h"
#include "http/profile_service.h"
#include "http/static_file.h"

namespace pillion::http {

struct RouteRow;  // router.cpp

// What one listener shows.
struct Surface {
  bool health_only = false;                       // /healthz, /readyz, /metrics and nothing else
  HostCheck hosts = HostCheck::none();            // which Host headers pass
  std::optional<TokenFile> token = std::nullopt;  // what every request has to carry
};

struct RouterConfig {
  std::size_t windows_max = 16;      // windows at the same time, over all clients
  std::string command_line;          // for /debug/pprof/cmdline: arguments separated by NUL
  std::span<const StaticFile> page;  // what a browser gets at "/", and what it loads; empty: the plain index
};

struct Request {
  std::string method;
  std::string path;
  Parameters parameters;
  std::string host;           // the Host header; empty when there is none
  std::string accept;         // the same
  std::string authorization;  // the same
  std::string fetch_site;     // Sec-Fetch-Site, which browsers send; the same
  std::string fetch_mode;     // Sec-Fetch-Mode; the same
  std::stop_token hung_up;    // the client went away, or the server stops
};

// Counts one running window until it is destroyed.
class WindowSlot {
 public:
  WindowSlot() = default;
  explicit WindowSlot(std::atomic<std::size_t>* running) : running_(running) {}
  WindowSlot(WindowSlot&& other) noexcept : running_(std::exchange(other.running_, nullptr)) {}
  WindowSlot& operator=(WindowSlot&& other) noexcept {
    std::swap(running_, other.running_);
    return *this;
  }
  ~WindowSlot() {
    if (running_ != nullptr) running_->fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::size_t>* running_ = nullptr;
};

struct Reply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  WindowSlot slot;  // held until the body is written, so that slow readers count against windows_max
};

// Decides what a request gets, for all listeners. Knows nothing of sockets. Thread-safe; `service` outlives
// it.
class Router {
 public:
  Router(ProfileService& service, RouterConfig config) : service_(service), config_(std::move(config)) {}

  // Blocks for as long as a window lasts. Never throws.
  [[nodiscard]] Reply handle(const Request& request, const Surface& surface);

 private:
  [[nodiscard]] Reply answer(const Request& request, const Surface& surface);
  [[nodiscard]] const StaticFile* find_file(const Request& request, const Surface& surface) const;
  [[nodiscard]] static std::optional<ServiceError> refuse(const Request& request, const Surface& surface);
  [[nodiscard]] Reply plain(const RouteRow& row);
  [[nodiscard]] Reply profile(const Request& request, const ProfileType* fixed_type);
  [[nodiscard]] Reply status();
  [[nodiscard]] Reply metrics();
  void count(const std::string& path, int status);

  ProfileService& service_;
  const RouterConfig config_;
  std::atomic<std::size_t> windows_running_{0};
  std::mutex mutex_;
  ServerCounters counters_;  // under mutex_; windows_running is filled in when read
};

// The reply for an error, also for those found before a request reaches the router.
[[nodiscard]] Reply error_reply(const ServiceError& error);

}  // namespace pillion::http
