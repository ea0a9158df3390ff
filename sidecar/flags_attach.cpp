// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "flag_tables.h"
#include "flag_values.h"
#include "mode_reasons.h"

namespace pillion {
namespace {

using namespace std::chrono_literals;

Result<void> add_uid(Options& options, const std::string& text) {
  const auto uid = parse_whole_within(text, 0, std::numeric_limits<std::uint32_t>::max() - 1);
  if (!uid) return tl::make_unexpected(uid.error());
  options.allow_uids.push_back(*uid);
  return {};
}

constexpr Flag kFlags[] = {
    {"socket-dir", "DIR", "/run/pillion",
     "folder of the shims' sockets; also PILLION_SOCKET_DIR; record -- COMMAND makes one of its own",
     kProfiling | kInject | kDoctor, kFindsNothing,
     [](Options& o, const std::string& text) { return store_name(text, o.socket_dir); }},
    {"pid", "N", "", "this process alone, by its number as pillion sees it; inject needs it",
     kServe | kAttach | kInject | kDoctor,
     ModeReasons(kCommand, "the target is the command after --") + kFindsNothing,
     [](Options& o, const std::string& text) {
       return store(parse_whole_within(text, 1, 4'194'304), o.pid);
     }},
    {"force", "", "false",
     "inject also where nothing says that it will do good or no harm: no CUDA in use, an unknown seccomp "
     "filter",
     kInject, kInjectsNothing,
     [](Options& o, const std::string& text) { return store(parse_boolean(text), o.force); }, true},
    {"wait-for-shim", "DURATION", "60s", "how long to wait for the first shim; 0 waits for ever", kProfiling,
     kAttachesNothing,
     [](Options& o, const std::string& text) {
       return store(parse_duration_within(text, 0ms, 24h), o.wait_for_shim);
     }},
    // cuptiSubscribe waits for an instant in which no thread is inside the driver: up to 7 s were seen with
    // four threads that replay graphs, and none within 12 s with eight that launch empty kernels.
    {"arm-timeout", "DURATION", "15s",
     "how long CUPTI may take to let pillion in; then the process is refused, and runs on unharmed",
     kProfiling, kAttachesNothing,
     [](Options& o, const std::string& text) {
       return store(parse_duration_within(text, 100ms, 5min), o.arm_timeout);
     }},
    {"max-sessions", "N", "64", "processes attached at a time; more are counted", kProfiling,
     kAttachesNothing,
     [](Options& o, const std::string& text) {
       return store(parse_whole_within(text, 1, 1024), o.max_sessions);
     }},
    {"allow-uid", "UID", "",
     "accept shims of this user, too (may be repeated); those of the own user always are", kProfiling,
     kAttachesNothing, add_uid, false, true},
    {"inject", "", "false",
     "bring the shim into the process, or into each that uses CUDA, where it was started without",
     kServe | kAttach, ModeReasons(kCommand, "the command is started with the shim") + kAttachesNothing,
     [](Options& o, const std::string& text) { return store(parse_boolean(text), o.inject); }, true},
};

}  // namespace

std::span<const Flag> attach_flags() { return kFlags; }

}  // namespace pillion
