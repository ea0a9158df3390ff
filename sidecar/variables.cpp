// SPDX-License-Identifier: Apache-2.0
#include "variables.h"

#include <cstdlib>
#include <filesystem>
#include <limits>

#include "flag_values.h"
#include "mode_reasons.h"

namespace pillion {
namespace {

constexpr const char* kShimFile = "libpillion.so";

// The shim is in a process that has been started: its environment is what it was.
constexpr ModeReasons kReadByTheShim =
    ModeReasons(kServe | kAttach, "the shim reads it, in the environment that the workload is started with") +
    kFindsNothing + ModeReasons(kDoctor, "doctor starts no shim");
constexpr ModeReasons kNotInjected =
    kReadByTheShim + ModeReasons(kInject, "the shim reads it where it is loaded at the workload's start");

// Whoever followed the first steps has it set, with other programs and their sidecar in that folder.
constexpr ModeReasons kOwnFolder =
    ModeReasons(kCommand, "the command's socket gets a folder of its own; -socket-dir names another");

Result<void> any(Options&, const std::string&) { return {}; }

Result<void> set_socket_dir(Options& options, const std::string& text) {
  return store_name(text, options.socket_dir);
}

Result<void> check_eager(Options&, const std::string& text) {
  if (text != "0" && text != "1") return fail("read", "'" + text + "'", "not 0 or 1");
  return {};
}

// "1000,65532", as the shim reads it.
Result<std::vector<std::uint32_t>> parse_ids(const std::string& text) {
  std::vector<std::uint32_t> ids;
  std::size_t at = 0;
  while (true) {
    const auto comma = text.find(',', at);
    const auto id =
        parse_whole_within(text.substr(at, comma - at), 0, std::numeric_limits<std::uint32_t>::max() - 1);
    if (!id) return fail("read", "'" + text + "'", "not numbers, separated by commas");
    ids.push_back(*id);
    if (comma == std::string::npos) return ids;
    at = comma + 1;
  }
}

Result<void> check_ids(Options&, const std::string& text) {
  const auto ids = parse_ids(text);
  if (!ids) return tl::make_unexpected(ids.error());
  return {};
}

Result<void> set_allowed_uids(Options& options, const std::string& text) {
  return store(parse_ids(text), options.shim_allow_uids);
}

// The driver loads one library.
Result<void> set_injection(Options& options, const std::string& text) {
  if (std::filesystem::path(text).filename() != kShimFile) {
    return fail(
        "read", "'" + text + "'",
        std::string("not ") + kShimFile +
            ": the command is started with Pillion's shim, and the driver loads one library only; end "
            "the other tool or unset the variable");
  }
  options.shim = text;
  return {};
}

constexpr Variable kVariables[] = {
    {"PILLION_SOCKET_DIR", "DIR", "/run/pillion",
     "folder where the shim makes its socket and pillion looks for it; -socket-dir is stronger", Reader::both,
     kServe | kAttach | kInject | kDoctor, kOwnFolder + kFindsNothing, set_socket_dir},
    {"CUDA_INJECTION64_PATH", "FILE", "",
     "libpillion.so: loads the shim; record starts its command with the one beside itself, or with the one "
     "named "
     "here",
     Reader::driver, kCommand, kNotInjected, set_injection},
    {"PILLION_ALLOW_UID", "UID,...", "", "users who may profile the workload besides its own and root",
     Reader::shim, kCommand | kInject, kReadByTheShim, set_allowed_uids},
    {"PILLION_ALLOW_GID", "GID,...", "", "groups whose members may profile the workload", Reader::shim,
     kCommand, kNotInjected, check_ids},
    {"PILLION_EAGER", "0|1", "0", "1: keep the modules that are loaded before anybody attaches", Reader::shim,
     kCommand, kNotInjected, check_eager},
    {"PILLION_LOG", "FILE", "", "where the shim writes its log (1 MiB at most)", Reader::shim,
     kCommand | kInject, kReadByTheShim,
     [](Options& o, const std::string& text) { return store_name(text, o.shim_log); }},
    {"PILLION_CUPTI_PATH", "FILE", "", "the one libcupti that the shim takes, instead of searching",
     Reader::shim, kCommand, kNotInjected, any},
    {"PILLION_RECORDER", "FILE", "",
     "set by record for its command: locked as long as record waits for shims; the program's cuInit then "
     "waits until "
     "its shim is armed (10 s at most)",
     Reader::shim, kCommand, kNotInjected, any},
    {"POD_NAME", "NAME", "", "label `pod` of the profile (downward API)", Reader::pillion, kProfiling,
     kAttachesNothing, any},
    {"POD_NAMESPACE", "NAME", "", "label `namespace` of the profile (downward API)", Reader::pillion,
     kProfiling, kAttachesNothing, any},
    {"NODE_NAME", "NAME", "", "label `node` of the profile (downward API)", Reader::pillion, kProfiling,
     kAttachesNothing, any},
    {"CONTAINER_NAME", "NAME", "", "label `container` of the profile", Reader::pillion, kProfiling,
     kAttachesNothing, any},
    {"TMPDIR", "DIR", "/tmp", "where record makes the folder of its command's socket", Reader::pillion,
     kCommand, ModeReasons(kServe | kAttach, "the socket lies in -socket-dir") + kAttachesNothing, any},
};

}  // namespace

const char* to_string(Reader reader) {
  switch (reader) {
    case Reader::pillion:
      return "pillion";
    case Reader::shim:
      return "the shim, in the workload's environment";
    case Reader::both:
      return "pillion, and the shim in the workload's environment";
    case Reader::driver:
      return "the CUDA driver, in the workload's environment";
  }
  return "nobody";
}

std::span<const Variable> variables() { return kVariables; }

Environment read_environment() {
  Environment environment;
  for (const auto& variable : kVariables) {
    const char* text = std::getenv(variable.name);
    if (text != nullptr && *text != '\0') environment.emplace(variable.name, text);
  }
  return environment;
}

Result<void> set_from_environment(const Environment& environment, Options& options) {
  for (const auto& variable : kVariables) {
    const auto found = environment.find(variable.name);
    if (found == environment.end() || (variable.applies & mode_bit(options.mode)) == 0) continue;
    if (auto set = variable.set(options, found->second); !set) {
      return fail("usage:", std::string("environment variable ") + variable.name,
                  set.error().object + " is " + set.error().detail);
    }
  }
  return {};
}

std::vector<std::string> idle_variables(const Environment& environment, Mode mode) {
  std::vector<std::string> lines;
  for (const auto& variable : kVariables) {
    const char* reason = variable.elsewhere.reason(mode);
    // Who sets a variable of the shim wants something of it; the others are in every environment.
    const bool meant = variable.reader != Reader::pillion;
    if (reason == nullptr || !meant || !environment.contains(variable.name)) continue;
    lines.push_back(std::string(variable.name) + " has no effect on `" + to_string(mode) + "`: " + reason);
  }
  return lines;
}

std::string variables_help(ModeSet modes) {
  std::string text;
  for (const auto& variable : kVariables) {
    if ((variable.applies & modes) == 0) continue;
    text += std::string("  ") + variable.name + " " + variable.type + "\n        " + variable.help;
    if (*variable.initial != '\0') text += std::string(" (default ") + variable.initial + ")";
    text += std::string("; read by ") + to_string(variable.reader);
    if ((variable.applies & modes) == kCommand) text += "; with a command only";
    text += '\n';
  }
  return text;
}

}  // namespace pillion
