// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>
#include <tl/expected.hpp>

#include "base/capture_settings.h"
#include "http/metrics_snapshot.h"
#include "http/service_error.h"

// What HTTP and the commands ask of the rest of the sidecar. Implemented by the pipeline, and by a fake in
// tests.
namespace pillion::http {

enum class ProfileType : std::uint8_t { gpu, idle, sync, cpu, offcpu, heap, allocs };
enum class ProfileFormat : std::uint8_t { pprof, json, folded };

[[nodiscard]] std::span<const ProfileType> profile_types();  // all of them
[[nodiscard]] const char* to_string(ProfileType type);
[[nodiscard]] const char* to_string(ProfileFormat format);
[[nodiscard]] std::optional<ProfileType> parse_profile_type(const std::string& text);
[[nodiscard]] std::optional<ProfileFormat> parse_profile_format(const std::string& text);

// Those that this build takes, as a list for people: "gpu, idle, sync".
[[nodiscard]] bool is_taken(ProfileType type);
[[nodiscard]] std::string taken_types();

// Why `kinds` (enum pillion_kinds) make a profile of that type impossible, for people: "needs the kind sync,
// which kinds kernel,memcpy leave out". Empty: they do not.
[[nodiscard]] std::string lacking_kinds(ProfileType type, std::uint32_t kinds);

// "application/octet-stream" for pprof, "application/json", "text/plain; charset=utf-8" for folded.
[[nodiscard]] const char* content_type(ProfileFormat format);

// ".pb.gz", ".json", ".folded".
[[nodiscard]] const char* file_suffix(ProfileFormat format);

struct ProfileRequest {
  ProfileType type = ProfileType::gpu;
  ProfileFormat format = ProfileFormat::pprof;

  // The window's length. Over HTTP whole seconds, 1 to 3600; `record` asks for anything up to days ("until
  // the target ends"). 0 only for heap and allocs asked for without `seconds`: what is live now, no window.
  std::chrono::milliseconds duration{20'000};

  std::optional<std::uint32_t> pid;     // as in the sidecar's PID namespace; unset: every attached process
  std::optional<std::uint32_t> device;  // CUDA ordinal in the workload; unset: every device

  // What this request wants otherwise than the sidecar's flags say. A shim is armed once: while another
  // window is open over it, other settings than its own are refused (settings_in_force).
  SettingsWish wish;

  // The window also ends when the last selected process has ended. Set by `record`; over HTTP the window
  // keeps its length, because a process may come back.
  bool end_with_targets = false;

  // With end_with_targets: requested once no process will come any more, as the command that brings them has
  // ended. A token that cannot be requested: nobody knows, and a second without any is taken for the end (a
  // process that executes another program is away for a moment).
  std::stop_token targets_complete;
};

struct ServiceReply {
  int status = 200;
  std::string content_type;  // empty: content_type(format)
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;           // pprof: already gzipped
  std::string empty_because;  // one line of ASCII: why there is nothing in it; empty: there is
};

using ServiceResult = tl::expected<ServiceReply, ServiceError>;

// `reason` is for people and is empty when `ok`.
struct Condition {
  bool ok = true;
  std::string reason;
};

// Every method is called from several HTTP threads at once, never throws, and outlives the server that calls
// it.
class ProfileService {
 public:
  virtual ~ProfileService() = default;

  // Blocks until the window has ended, then answers. The status is decided at the window's end.
  //
  // `stop` becomes true when the client hangs up or the program is told to end: the window ends at once, and
  // what it holds is still answered (a client that is gone does not read it; `record` writes it). The reply
  // should come within half a second: at the end of the program a connection is cut after one. Callbacks on
  // `stop` run on the thread that watches all connections: they must not block (waking a
  // std::condition_variable_any that waits with `stop` is what it is made for).
  [[nodiscard]] virtual ServiceResult profile(const ProfileRequest& request, std::stop_token stop) = 0;

  // State and doctor, as one JSON object. Bounded work: no file of the workload is read, no session waited
  // for.
  [[nodiscard]] virtual nlohmann::json status() = 0;

  [[nodiscard]] virtual MetricsSnapshot metrics() = 0;

  // A shim is attached (connected, armed or not). `reason` says what is missing otherwise.
  [[nodiscard]] virtual Condition ready() = 0;

  // The pipeline's threads make progress. True while waiting for a shim.
  [[nodiscard]] virtual Condition alive() = 0;
};

}  // namespace pillion::http
