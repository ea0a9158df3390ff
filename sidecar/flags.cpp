// SPDX-License-Identifier: Apache-2.0
#include "flags.h"

#include <array>
#include <limits>

#include "flag_values.h"

namespace pillion {
namespace {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

constexpr ModeSet kServe = mode_bit(Mode::serve);
constexpr ModeSet kAttach = mode_bit(Mode::record_attach);
constexpr ModeSet kCommand = mode_bit(Mode::record_command);
constexpr ModeSet kRecord = kAttach | kCommand;
constexpr ModeSet kInstall = mode_bit(Mode::install);
constexpr ModeSet kProbe = mode_bit(Mode::probe);
constexpr ModeSet kProfiling = kServe | kRecord;

constexpr FlagRefusal kInstallOnlyCopies = {kInstall, "install only copies files, it attaches to nothing"};
constexpr FlagRefusal kProbeOnlyAsks = {kProbe, "probe only asks a running server, it attaches to nothing"};
constexpr FlagRefusal kRecordHasNoServer = {kRecord, "record answers no requests"};
constexpr FlagRefusal kInstallHasNoServer = {kInstall, "install answers no requests"};
constexpr FlagRefusal kProbeHasNoServer = {kProbe, "probe starts no server, it asks one (-url, -listen)"};
constexpr FlagRefusal kServeWritesNoFile = {kServe, "each HTTP request says it for itself (/profile?...)"};

// Stores what `parsed` holds, or passes its error on.
template <typename T, typename Field>
Result<void> store(Result<T> parsed, Field& field) {
  if (!parsed) return tl::make_unexpected(parsed.error());
  field = *parsed;
  return {};
}

Result<void> set_directory(const std::string& text, std::string& field) {
  if (text.empty()) return fail("read", "''", "not a folder's name");
  field = text;
  return {};
}

Result<void> add_uid(Options& options, const std::string& text) {
  const auto uid = parse_whole_within(text, 0, std::numeric_limits<std::uint32_t>::max() - 1);
  if (!uid) return tl::make_unexpected(uid.error());
  options.allow_uids.push_back(*uid);
  return {};
}

Result<void> set_finalize(Options& options, const std::string& text) {
  if (text != "auto" && text != "never") return fail("read", "'" + text + "'", "not auto or never");
  options.finalize = text == "auto" ? Finalize::automatic : Finalize::never;
  return {};
}

Result<void> set_log_level(Options& options, const std::string& text) {
  static constexpr std::pair<const char*, LogLevel> kLevels[] = {{"debug", LogLevel::debug},
                                                                 {"info", LogLevel::info},
                                                                 {"warning", LogLevel::warning},
                                                                 {"error", LogLevel::error}};
  for (const auto& [name, level] : kLevels) {
    if (text != name) continue;
    options.log_level = level;
    return {};
  }
  return fail("read", "'" + text + "'", "not debug, info, warning or error");
}

Result<void> set_format(Options& options, const std::string& text) {
  const auto format = http::parse_profile_format(text);
  if (!format) return fail("read", "'" + text + "'", "not pprof, json or folded");
  options.format = *format;
  return {};
}

Result<void> set_type(Options& options, const std::string& text) {
  const auto type = http::parse_profile_type(text);
  if (!type) return fail("read", "'" + text + "'", "not gpu, cpu, offcpu, heap or allocs");
  if (*type != http::ProfileType::gpu)
    return fail("read", "'" + text + "'", "not a profile that this build takes: gpu");
  options.type = *type;
  return {};
}

Result<void> set_url(Options& options, const std::string& text) {
  std::string_view rest = text;
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  return store(http::parse_listen_address(rest), options.probe_target);
}

constexpr Flag kFlags[] = {
    {"listen",
     "ADDR",
     "127.0.0.1:7070",
     "address of the HTTP server; port 0 takes a free one; beyond loopback only "
     "with -insecure",
     kServe | kProbe,
     {kRecordHasNoServer, kInstallHasNoServer},
     [](Options& o, const std::string& text) { return store(http::parse_listen_address(text), o.listen); }},
    {"health-listen",
     "ADDR",
     "",
     "address that serves /healthz, /readyz and /metrics alone, e.g. :7071 for the "
     "pod's address",
     kServe,
     {kRecordHasNoServer, kInstallHasNoServer, kProbeHasNoServer},
     [](Options& o, const std::string& text) {
       return store(http::parse_listen_address(text), o.health_listen);
     }},
    {"insecure",
     "",
     "false",
     "let -listen go beyond loopback: whoever reaches the address reads profiles",
     kServe,
     {kRecordHasNoServer, kInstallHasNoServer, kProbeHasNoServer},
     [](Options& o, const std::string& text) { return store(parse_boolean(text), o.insecure); },
     true},
    {"exit-with-workload",
     "",
     "false",
     "end, with exit code 0, when every attached process has ended",
     kServe,
     {{kRecord, "record always ends with its target"}, kInstallOnlyCopies, kProbeOnlyAsks},
     [](Options& o, const std::string& text) { return store(parse_boolean(text), o.exit_with_workload); },
     true},
    {"socket-dir",
     "DIR",
     "/run/pillion",
     "folder of the shims' sockets; also PILLION_SOCKET_DIR",
     kProfiling,
     {kInstallOnlyCopies, kProbeOnlyAsks},
     [](Options& o, const std::string& text) { return set_directory(text, o.socket_dir); }},
    {"pid",
     "N",
     "",
     "attach to this process alone",
     kServe | kAttach,
     {{kCommand, "the target is the command after --"}, kInstallOnlyCopies, kProbeOnlyAsks},
     [](Options& o, const std::string& text) {
       return store(parse_whole_within(text, 1, 4'194'304), o.pid);
     }},
    {"wait-for-shim",
     "DURATION",
     "60s",
     "how long to wait for the first shim; 0 waits for ever",
     kProfiling,
     {kInstallOnlyCopies, kProbeOnlyAsks},
     [](Options& o, const std::string& text) {
       return store(parse_duration_within(text, 0ms, 24h), o.wait_for_shim);
     }},
    {"max-sessions",
     "N",
     "64",
     "processes attached at a time; more are counted",
     kProfiling,
     {kInstallOnlyCopies, kProbeOnlyAsks},
     [](Options& o, const std::string& text) {
       return store(parse_whole_within(text, 1, 1024), o.max_sessions);
     }},
    {"allow-uid",
     "UID",
     "",
     "accept shims of this user, too (may be repeated); those of the own user always are",
     kProfiling,
     {kInstallOnlyCopies, kProbeOnlyAsks},
     add_uid,
     false,
     true},
    {"drain-every",
     "DURATION",
     "50ms",
     "how often the rings are read",
     kProfiling,
     {kInstallOnlyCopies, kProbeOnlyAsks},
     [](Options& o, const std::string& text) {
       return store(parse_duration_within(text, 1ms, 10s), o.drain_every);
     }},
    {"ring-budget",
     "SIZE",
     "512MiB",
     "shared memory for the rings of all processes",
     kProfiling,
     {kInstallOnlyCopies, kProbeOnlyAsks},
     [](Options& o, const std::string& text) {
       return store(parse_bytes_within(text, 1ull << 20, 1ull << 36), o.ring_budget_bytes);
     }},
    {"sample-budget",
     "PERCENT",
     "1",
     "share of the launching threads' time that snapshots may take",
     kProfiling,
     {kInstallOnlyCopies, kProbeOnlyAsks},
     [](Options& o, const std::string& text) { return store(parse_permyriad(text), o.sample_permyriad); }},
    {"sample-mib",
     "N",
     "64",
     "MiB of snapshots per second and process",
     kProfiling,
     {kInstallOnlyCopies, kProbeOnlyAsks},
     [](Options& o, const std::string& text) {
       return store(parse_whole_within(text, 1, 65'536), o.sample_mib_per_s);
     }},
    {"stack-bytes",
     "N",
     "196608",
     "most bytes of one snapshot",
     kProfiling,
     {kInstallOnlyCopies, kProbeOnlyAsks},
     [](Options& o, const std::string& text) {
       return store(parse_whole_within(text, 1024, 1'048'576), o.stack_bytes);
     }},
    {"events-rings",
     "N",
     "16",
     "rings for launches and executions",
     kProfiling,
     {kInstallOnlyCopies, kProbeOnlyAsks},
     [](Options& o, const std::string& text) {
       return store(parse_whole_within(text, 1, 64), o.events_rings);
     }},
    {"events-ring-kib",
     "N",
     "1024",
     "size of each, a power of two",
     kProfiling,
     {kInstallOnlyCopies, kProbeOnlyAsks},
     [](Options& o, const std::string& text) {
       return store(parse_power_of_two_within(text, 4, 65'536), o.events_ring_kib);
     }},
    {"stacks-rings",
     "N",
     "8",
     "rings for stack snapshots",
     kProfiling,
     {kInstallOnlyCopies, kProbeOnlyAsks},
     [](Options& o, const std::string& text) {
       return store(parse_whole_within(text, 1, 64), o.stacks_rings);
     }},
    {"stacks-ring-kib",
     "N",
     "2048",
     "size of each, a power of two",
     kProfiling,
     {kInstallOnlyCopies, kProbeOnlyAsks},
     [](Options& o, const std::string& text) {
       return store(parse_power_of_two_within(text, 4, 65'536), o.stacks_ring_kib);
     }},
    {"linger",
     "DURATION",
     "30s",
     "how long a shim stays armed after the last window",
     kServe,
     {{kRecord, "record takes one window and ends"}, kInstallOnlyCopies, kProbeOnlyAsks},
     [](Options& o, const std::string& text) {
       return store(parse_duration_within(text, 0ms, 1h), o.linger);
     }},
    {"finalize",
     "auto|never",
     "auto",
     "finalize CUPTI at detach where the program survives it, or never",
     kProfiling,
     {kInstallOnlyCopies, kProbeOnlyAsks},
     set_finalize},
    {"duration",
     "DURATION",
     "",
     "length of the profile (default 20s; with a command: until it ends)",
     kRecord,
     {kServeWritesNoFile, kInstallOnlyCopies, kProbeOnlyAsks},
     [](Options& o, const std::string& text) {
       return store(parse_duration_within(text, 1ms, 24h), o.duration);
     }},
    {"o",
     "FILE",
     "",
     "file to write, - for stdout (default profile.pb.gz, .json or .folded)",
     kRecord,
     {kServeWritesNoFile, kInstallOnlyCopies, kProbeOnlyAsks},
     [](Options& o, const std::string& text) { return set_directory(text, o.output); }},
    {"format",
     "pprof|json|folded",
     "pprof",
     "format of the profile",
     kRecord,
     {kServeWritesNoFile, kInstallOnlyCopies, kProbeOnlyAsks},
     set_format},
    {"type",
     "gpu",
     "gpu",
     "what to profile: only the GPU in this build",
     kRecord,
     {kServeWritesNoFile, kInstallOnlyCopies, kProbeOnlyAsks},
     set_type},
    {"cupti-dir",
     "DIR",
     "",
     "folder with further libcupti.so files to install (may be repeated)",
     kInstall,
     {{kServe, "the shim takes the CUPTI that `pillion install` put beside it"},
      {kRecord, "the shim takes the CUPTI that lies beside it"},
      kProbeOnlyAsks},
     [](Options& o, const std::string& text) { return set_directory(text, o.cupti_dirs.emplace_back()); },
     false,
     true},
    {"url",
     "URL",
     "",
     "server to ask, e.g. http://127.0.0.1:7071; default: the address of -listen",
     kProbe,
     {{kServe, "serve answers requests, it sends none"},
      {kRecord, "record sends no requests"},
      kInstallHasNoServer},
     set_url},
    {"log-level", "LEVEL", "info", "debug, info, warning or error", kAllModes, {}, set_log_level},
};

}  // namespace

const char* Flag::refusal(Mode mode) const {
  for (const auto& refusal : refusals) {
    if ((refusal.modes & mode_bit(mode)) != 0) return refusal.reason;
  }
  return nullptr;
}

std::span<const Flag> flags() { return kFlags; }

const Flag* find_flag(std::string_view name) {
  for (const auto& flag : kFlags) {
    if (name == flag.name) return &flag;
  }
  return nullptr;
}

const char* to_string(Mode mode) {
  switch (mode) {
    case Mode::serve:
      return "pillion serve";
    case Mode::record_attach:
      return "pillion record";
    case Mode::record_command:
      return "pillion record -- command";
    case Mode::install:
      return "pillion install";
    case Mode::probe:
      return "pillion probe";
  }
  return "pillion";
}

std::string help_text(ModeSet modes) {
  std::string text;
  for (const auto& flag : kFlags) {
    if ((flag.applies & modes) == 0) continue;
    text += std::string("  -") + flag.name;
    if (*flag.type != '\0') text += std::string(" ") + flag.type;
    text += std::string("\n        ") + flag.help;
    if (*flag.initial != '\0' && !flag.boolean) text += std::string(" (default ") + flag.initial + ")";
    if ((flag.applies & modes) == kAttach) text += "; not with a command";
    text += '\n';
  }
  return text;
}

}  // namespace pillion
