// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "http/profile_service.h"
#include "options.h"
#include "pipeline/ask.h"
#include "pipeline/attachments.h"
#include "pipeline/build_thread.h"
#include "pipeline/drain_thread.h"
#include "pipeline/injections.h"
#include "pipeline/target_code.h"
#include "pipeline/unwind_thread.h"
#include "runtime.h"

namespace pillion::pipeline {

// All stages, put together: four threads (attach, drain, unwind, build) and whoever asks.
class Pipeline : public Runtime, private http::ProfileService {
 public:
  explicit Pipeline(const Options& options) : options_(options) {}
  ~Pipeline() override { stop(); }

  [[nodiscard]] Result<void> start() override;
  [[nodiscard]] http::ProfileService& service() override { return *this; }
  [[nodiscard]] WaitOutcome wait_for_shim(std::stop_token stop) override;
  [[nodiscard]] std::string what_was_seen() override;
  [[nodiscard]] std::string who_refused() override;
  [[nodiscard]] bool wait_for_workload_end(std::stop_token stop) override;
  void stop() override;

 private:
  [[nodiscard]] http::ServiceResult profile(const http::ProfileRequest& request,
                                            std::stop_token stop) override;
  [[nodiscard]] nlohmann::json status() override;
  [[nodiscard]] http::MetricsSnapshot metrics() override;
  [[nodiscard]] http::Condition ready() override;
  [[nodiscard]] http::Condition alive() override;

  [[nodiscard]] Result<void> start_injections();
  // Why `record -pid N -inject` need not wait: the shim will not come into the process, and none is there.
  [[nodiscard]] std::optional<GivenUp> given_up();
  [[nodiscard]] std::size_t connected();
  [[nodiscard]] std::vector<TurnedAway> turned_away();
  [[nodiscard]] AttachReport report();
  // The last ones when the drain thread is too busy to answer: a counter must never seem to begin anew.
  [[nodiscard]] DrainTotals totals();
  [[nodiscard]] std::optional<http::ServiceError> not_taken(http::ProfileType type) const;

  // Destruction goes upwards: threads end before what they use. stop() ends them in an order of its own.
  const Options options_;
  Bell bell_;
  FileTable files_;
  std::unique_ptr<EventLoop> attach_loop_;
  std::unique_ptr<TargetCode> code_;
  std::unique_ptr<DrainThread> drain_;
  std::unique_ptr<UnwindThread> unwind_;
  std::unique_ptr<BuildThread> build_;
  std::unique_ptr<Attachments> attachments_;
  std::thread attach_thread_;
  std::unique_ptr<Injections> injections_;  // with -inject
  std::atomic<std::uint64_t> attach_beat_ns_{0};
  std::atomic<join::WindowId> next_window_{1};
  std::atomic<std::uint64_t> windows_taken_{0};
  std::atomic<bool> stopped_{false};
  std::mutex totals_mutex_;
  DrainTotals last_totals_;  // under totals_mutex_
};

}  // namespace pillion::pipeline
