// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "http/profile_service.h"
#include "pipeline/ask.h"
#include "pipeline/attachments.h"
#include "pipeline/build_thread.h"
#include "pipeline/drain_thread.h"

namespace pillion::pipeline {

// The threads that a window passes through.
struct Stages {
  EventLoop& attach_loop;
  Attachments& attachments;
  DrainThread& drain;
  BuildThread& build;
  Bell& bell;
  std::chrono::milliseconds arm_timeout;
};

// One request, from arming to the rendered profile. Lives on the thread of whoever asked, which it blocks.
class WindowRun {
 public:
  WindowRun(Stages stages, http::ProfileRequest request, join::WindowId id)
      : stages_(stages), request_(request), id_(id) {}

  // `nothing_attached` is the answer when no shim is connected.
  [[nodiscard]] http::ServiceResult run(const std::stop_token& stop,
                                        const http::ServiceError& nothing_attached);

 private:
  [[nodiscard]] WindowArming arming();
  void wait_for_arming(const std::stop_token& stop);
  void wait_for_end(const std::stop_token& stop);
  void settle();
  [[nodiscard]] bool flush_once(std::chrono::milliseconds deadline);
  [[nodiscard]] std::optional<http::ServiceError> open();
  [[nodiscard]] http::ServiceResult answer(const WindowArming& arming);
  [[nodiscard]] std::optional<http::ServiceError> unknown_device(const std::vector<WindowPart>& parts) const;
  [[nodiscard]] http::ServiceError refusal(const WindowArming& arming) const;

  Stages stages_;
  const http::ProfileRequest request_;
  const join::WindowId id_;
  // When the last selected process had ended, if none is left and none will come. CLOCK_MONOTONIC.
  [[nodiscard]] std::optional<std::uint64_t> all_ended_at();

  std::optional<std::uint64_t> nobody_since_ns_;
  std::uint64_t t0_ns_ = 0;
  std::uint64_t t1_ns_ = 0;
  std::int64_t wall_t0_ns_ = 0;
  std::uint64_t clock_steps_ = 0;  // seen before the window
  bool cut_short_ = false;
  bool unsettled_ = false;
  bool flushed_ = false;  // by every armed process, at the end
};

}  // namespace pillion::pipeline
