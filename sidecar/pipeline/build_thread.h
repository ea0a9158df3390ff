// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"
#include "base/file_table.h"
#include "base/result.h"
#include "http/profile_service.h"
#include "pipeline/drained_target.h"
#include "pipeline/target_code.h"
#include "profile/profile.h"
#include "session/messages.h"
#include "symbolize/symbolizer.h"

namespace pillion::pipeline {

// A closed window, to be made into bytes.
struct BuildRequest {
  std::int64_t start_wall_ns = 0;  // CLOCK_REALTIME
  std::uint64_t t0_ns = 0;         // CLOCK_MONOTONIC
  std::uint64_t t1_ns = 0;
  http::ProfileType type = http::ProfileType::gpu;
  http::ProfileFormat format = http::ProfileFormat::pprof;
  std::vector<WindowPart> parts;
  std::optional<IdleData> idle;           // then an idle profile is to be made
  std::vector<session::Refused> refused;  // processes that could not be armed
  std::uint64_t skipped = 0;              // processes past a limit
  std::uint64_t clock_steps = 0;          // CLOCK_REALTIME was set during the window
  bool unsettled = false;                 // records that belong to it were still on their way
  std::vector<std::string> residues;      // what earlier detaches left behind in the processes
  bool cut_short = false;                 // ended before its time: the client went away or pillion ends
};

// A profile in the format that was asked for.
struct Rendered {
  std::string body;
  std::string empty_because;  // empty: it is not
};

// The pod that this sidecar runs in, by the downward API (POD_NAME, POD_NAMESPACE, NODE_NAME) and
// CONTAINER_NAME; empty outside Kubernetes.
[[nodiscard]] profile::PodIdentity pod_from_environment();

// The thread that names code and writes profiles: symbol tables have one owner, and a large window must not
// hold up the drain.
class BuildThread {
 public:
  BuildThread(TargetCode& code, FileTable& files, profile::PodIdentity pod);
  ~BuildThread() { stop(); }

  void start();
  void stop();

  // Blocks until the window is rendered. Any thread but its own.
  [[nodiscard]] Result<Rendered> render(BuildRequest request);

 private:
  [[nodiscard]] Result<Rendered> build(BuildRequest request);

  TargetCode& code_;
  FileTable& files_;
  const profile::PodIdentity pod_;
  symbolize::Symbolizer symbolizer_;  // on thread_ only
  BoundedQueue<std::function<void()>> queue_;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace pillion::pipeline
