// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "http/listen_address.h"
#include "http/profile_service.h"
#include "modes.h"

namespace pillion {

enum class Finalize : std::uint8_t {
  automatic,  // detach finalizes CUPTI where that is known to be safe
  never       // disable and unsubscribe only
};

enum class Probe : std::uint8_t { live, ready };

// The command line after parsing and checking: every value is within its range. The defaults are those of the
// flag tables (flag_tables.h), which fill this.
struct Options {
  Mode mode = Mode::serve;

  // Where and what to attach (serve, record, inject, doctor).
  std::string socket_dir;
  std::optional<std::uint32_t> pid;
  std::chrono::milliseconds wait_for_shim{};  // 0: for ever
  std::uint32_t max_sessions = 0;
  std::vector<uid_t> allow_uids;
  bool inject = false;  // the shim into processes that were started without it

  // What the shims are asked for.
  std::chrono::milliseconds drain_every{};
  std::uint64_t ring_budget_bytes = 0;  // over the rings of all processes
  std::uint32_t kinds = 0;              // enum pillion_kinds
  std::chrono::milliseconds lease{};    // a shim that hears nothing for so long disarms
  std::uint32_t sample_permyriad = 0;   // of the launching threads' time, 1/10000
  std::uint32_t sample_mib_per_s = 0;
  std::uint32_t stack_bytes = 0;  // most bytes of one snapshot
  bool python = true;             // Python frames of launching threads
  std::uint32_t events_rings = 0;
  std::uint32_t events_ring_kib = 0;
  std::uint32_t stacks_rings = 0;
  std::uint32_t stacks_ring_kib = 0;
  std::chrono::milliseconds arm_timeout{};  // for CUPTI to let us in
  std::chrono::milliseconds linger{};       // how long a shim stays armed after the last window
  Finalize finalize = Finalize::automatic;

  // serve
  http::ListenAddress listen;  // probe, too
  std::optional<http::ListenAddress> health_listen;
  mode_t listen_mode = 0;                // of a unix socket
  std::string token_file;                // probe, too; empty: no token is needed
  std::vector<std::string> allow_hosts;  // lower case, see http/access.h
  bool insecure = false;
  bool exit_with_workload = false;

  // record
  std::optional<std::chrono::milliseconds> duration;  // unset: until the target ends
  std::string output;                                 // "-": stdout
  http::ProfileFormat format = http::ProfileFormat::pprof;
  http::ProfileType type = http::ProfileType::gpu;
  std::vector<std::string> command;  // record_command: never empty
  bool socket_dir_given = false;     // by flag
  std::string shim;                  // CUDA_INJECTION64_PATH; empty: the one beside this program

  bool format_text = false;  // doctor: -format text

  // inject
  bool force = false;
  std::vector<std::uint32_t> shim_allow_uids;  // PILLION_ALLOW_UID, for the shim
  std::string shim_log;                        // PILLION_LOG, for the shim: a path of the target's

  // install
  std::string install_dir;
  std::vector<std::string> cupti_dirs;

  // probe
  Probe probe = Probe::live;
  std::optional<http::ListenAddress> probe_target;  // -url; unset: `listen`

  LogLevel log_level = LogLevel::info;

  bool operator==(const Options&) const = default;
};

// What -help, help, -version and version ask for.
struct Help {
  std::string text;  // for stdout; exit code 0
};

// Variables of the table in variables.h, by name; never with an empty value.
using Environment = std::map<std::string, std::string>;

// A usage error names the flag, variable or argument, and the reason. `arguments` are those after the
// program's name.
[[nodiscard]] Result<std::variant<Options, Help>> parse_options(const std::vector<std::string>& arguments,
                                                                const Environment& environment);

}  // namespace pillion
