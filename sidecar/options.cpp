// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <algorithm>
#include <set>
#include <utility>

#include "abi/pillion_abi.h"
#include "flags.h"
#include "manual.h"
#include "variables.h"

namespace pillion {
namespace {

constexpr const char* kSocketDirFlag = "socket-dir";

struct Given {
  const Flag* flag;
  std::string text;
};

// The command line, taken apart but not yet judged.
struct Parts {
  std::string command = "serve";
  bool named = false;  // the command, by the user
  std::vector<Given> given;
  std::vector<std::string> positional;
  std::vector<std::string> after_dashes;
  bool dashes = false;
  bool help = false;
  bool version = false;
};

tl::unexpected<Error> usage(const std::string& what, const std::string& detail) {
  return fail("usage:", what, detail);
}

// Whether it looks like one of the flags that there are: "-" alone, and what no flag is called, may be a
// value.
bool is_flag(std::string_view text) {
  if (text.size() < 2 || !text.starts_with('-')) return false;
  text.remove_prefix(text.starts_with("--") ? 2 : 1);
  return find_flag(text.substr(0, text.find('='))) != nullptr;
}

// Reads the flag at arguments[at], with its value; returns how many arguments it took.
Result<std::size_t> take_flag(const std::vector<std::string>& arguments, std::size_t at, Parts& parts) {
  std::string name = arguments[at].substr(arguments[at].starts_with("--") ? 2 : 1);
  const auto equals = name.find('=');
  const bool has_value = equals != std::string::npos;
  std::string value = has_value ? name.substr(equals + 1) : "";
  name.resize(std::min(equals, name.size()));

  if (name == "help" || name == "h") {
    parts.help = true;
    return 1;
  }
  if (name == "version") {
    parts.version = true;
    return 1;
  }
  const auto* flag = find_flag(name);
  if (flag == nullptr) return usage("unknown flag -" + name, "pillion -help lists them");
  if (has_value || flag->boolean) {
    parts.given.push_back({flag, has_value ? value : "true"});
    return 1;
  }
  const std::string needed = std::string("needs a value: ") + flag->type;
  if (at + 1 >= arguments.size()) return usage("flag -" + name, needed);
  const std::string& next = arguments[at + 1];
  if (next == "--" || is_flag(next))
    return usage("flag -" + name, needed + "; " + next +
                                      " comes next, and is no value (if it is meant as one: -" + name + "=" +
                                      next + ")");
  parts.given.push_back({flag, arguments[at + 1]});
  return 2;
}

Result<Parts> take_apart(const std::vector<std::string>& arguments) {
  Parts parts;
  std::size_t at = 0;
  if (!arguments.empty() && !arguments[0].starts_with('-')) {
    parts.command = arguments[at++];
    parts.named = true;
  }
  while (at < arguments.size()) {
    const auto& argument = arguments[at];
    if (argument == "--") {
      parts.dashes = true;
      parts.after_dashes.assign(arguments.begin() + static_cast<std::ptrdiff_t>(at) + 1, arguments.end());
      break;
    }
    if (argument.size() < 2 || argument[0] != '-') {
      parts.positional.push_back(argument);
      ++at;
      continue;
    }
    const auto taken = take_flag(arguments, at, parts);
    if (!taken) return tl::make_unexpected(taken.error());
    at += *taken;
  }
  return parts;
}

Result<Mode> find_mode(const Parts& parts) {
  if (parts.command == "serve") return Mode::serve;
  if (parts.command == "record") return parts.dashes ? Mode::record_command : Mode::record_attach;
  if (parts.command == "install") return Mode::install;
  if (parts.command == "probe") return Mode::probe;
  if (parts.command == "inject") return Mode::inject;
  if (parts.command == "doctor") return Mode::doctor;
  return usage("unknown command '" + parts.command + "'",
               "there are serve, record, inject, doctor, install, probe, help and version");
}

Help make_help(const Parts& parts, Mode mode) {
  const ModeSet modes = parts.command == "record" ? kRecord : mode_bit(mode);
  std::string page = manual_page(parts.command, modes);
  if (!parts.named) page = overview() + "\nWithout a command it serves.\n\n" + page;
  return {std::move(page)};
}

Help make_version() {
  return {"pillion " PILLION_VERSION ", wire " + std::to_string(PILLION_ABI_MAJOR) + "." +
          std::to_string(PILLION_ABI_MINOR) + "\n"};
}

// `help record` is `record -help`; neither help nor version does anything that a flag could change.
Result<void> turn_help_and_version(Parts& parts) {
  const bool help = parts.command == "help";
  if (!help && parts.command != "version") return {};
  if (!parts.given.empty()) {
    return usage(std::string("flag -") + parts.given[0].flag->name,
                 "cannot be used with `pillion " + parts.command + "`: it only prints");
  }
  const std::size_t wanted = help ? 1 : 0;
  if (parts.dashes || parts.positional.size() > wanted) {
    return usage("unexpected argument '" + (parts.dashes ? "--" : parts.positional[wanted]) + "'",
                 help ? "pillion help COMMAND" : "version takes none");
  }
  parts.help = help;
  parts.version = !help;
  parts.named = !parts.positional.empty();
  parts.command = parts.named ? parts.positional[0] : "serve";
  return {};
}

Result<void> set_defaults(Options& options) {
  for (const auto& flag : flags()) {
    if (*flag.initial == '\0') continue;
    if (auto set = flag.set(options, flag.initial); !set) return set;
  }
  return {};
}

Result<void> set_given(const Parts& parts, Options& options) {
  std::set<std::string_view> seen;
  for (const auto& [flag, text] : parts.given) {
    const std::string name = std::string("flag -") + flag->name;
    if (const char* reason = flag->refused.reason(options.mode)) {
      if (flag->is_default(text)) continue;
      return usage(name, std::string("cannot be used with `") + to_string(options.mode) + "`: " + reason);
    }
    if (!seen.insert(flag->name).second && !flag->repeatable) return usage(name, "is given twice");
    if (auto set = flag->set(options, text); !set)
      return usage(name, set.error().object + " is " + set.error().detail);
    if (std::string_view(flag->name) == kSocketDirFlag) options.socket_dir_given = true;
  }
  return {};
}

// By a word that belongs to no flag.
const char* what_was_meant(Mode mode) {
  if (mode == Mode::record_attach) return "a command comes after --, a process after -pid";
  if ((mode_bit(mode) & (kInject | kDoctor)) != 0) return "a process comes after -pid";
  return "flags begin with -";
}

Result<void> set_positional(const Parts& parts, Options& options) {
  const auto& words = parts.positional;
  std::size_t wanted = 0;
  if (options.mode == Mode::install) {
    if (words.empty()) return usage("install", "needs the folder to copy to: pillion install DIR");
    options.install_dir = words[0];
    wanted = 1;
  }
  if (options.mode == Mode::probe) {
    if (words.empty() || (words[0] != "live" && words[0] != "ready")) {
      return usage("probe", "needs to know what to ask: pillion probe live, or pillion probe ready");
    }
    options.probe = words[0] == "live" ? Probe::live : Probe::ready;
    wanted = 1;
  }
  if (words.size() > wanted) {
    return usage("unexpected argument '" + words[wanted] + "'", what_was_meant(options.mode));
  }
  if (options.mode == Mode::record_command) {
    if (parts.after_dashes.empty()) return usage("record", "needs a command after --");
    options.command = parts.after_dashes;
  } else if (parts.dashes) {
    return usage("unexpected argument '--'", "only record takes a command");
  }
  return {};
}

// Who can reach the server of serve, and what stands in the way.
Result<void> check_access(const Options& options) {
  const auto& listen = options.listen;
  if (!listen.local() && options.token_file.empty() && !options.insecure) {
    return usage(
        "flag -listen",
        listen.text() +
            " is not a loopback address: whoever reaches it reads profiles; add -token-file FILE, or "
            "-insecure if that is meant (for probes and Prometheus -health-listen is enough)");
  }
  if (listen.is_unix() && !options.allow_hosts.empty()) {
    return usage("flag -allow-host", "no Host header is looked at on the unix socket of -listen");
  }
  const bool any_unix = listen.is_unix() || (options.health_listen && options.health_listen->is_unix());
  if (options.listen_mode != 0600 && !any_unix) {
    return usage("flag -listen-mode",
                 "is about unix sockets, and " + listen.text() + " is none: -listen unix:/PATH");
  }
  return {};
}

// What no flag can judge alone.
Result<void> check_together(Options& options) {
  if (options.mode == Mode::serve) {
    if (auto checked = check_access(options); !checked) return checked;
  }
  const auto& target = options.probe_target ? *options.probe_target : options.listen;
  if (options.mode == Mode::probe && target.port == 0 && !target.is_unix()) {
    return usage(options.probe_target ? "flag -url" : "flag -listen", "port 0 cannot be asked");
  }
  // A record is never split, and a ring that holds just one would drop every second.
  const std::uint64_t ring_bytes = std::uint64_t{options.stacks_ring_kib} << 10;
  const bool profiling = (mode_bit(options.mode) & kProfiling) != 0;
  if (profiling && std::uint64_t{options.stack_bytes} * 2 > ring_bytes) {
    return usage("flag -stack-bytes", std::to_string(options.stack_bytes) +
                                          " is more than half of a stacks ring (-stacks-ring-kib " +
                                          std::to_string(options.stacks_ring_kib) + ")");
  }
  if (options.mode == Mode::inject && !options.pid)
    return usage("inject", "needs the process: pillion inject -pid N");
  if (options.format_text && options.mode != Mode::doctor)
    return usage("flag -format", "text is doctor's; a profile is pprof, json or folded");
  if (options.mode == Mode::doctor && options.format == http::ProfileFormat::folded)
    return usage("flag -format", "doctor answers in text or json");
  const bool records = (mode_bit(options.mode) & kRecord) != 0;
  if (const auto lacking = http::lacking_kinds(options.type, options.kinds); records && !lacking.empty())
    return usage("flag -kinds", std::string("-type ") + http::to_string(options.type) + " " + lacking);
  if (options.output.empty()) options.output = std::string("profile") + http::file_suffix(options.format);
  if (options.mode == Mode::record_attach && !options.duration) options.duration = std::chrono::seconds(20);
  return {};
}

}  // namespace

Result<std::variant<Options, Help>> parse_options(const std::vector<std::string>& arguments,
                                                  const Environment& environment) {
  auto parts = take_apart(arguments);
  if (!parts) return tl::make_unexpected(parts.error());
  if (auto turned = turn_help_and_version(*parts); !turned) return tl::make_unexpected(turned.error());
  if (parts->version) return make_version();
  const auto mode = find_mode(*parts);
  if (!mode) return tl::make_unexpected(mode.error());
  if (parts->help) return make_help(*parts, *mode);

  Options options;
  options.mode = *mode;
  if (auto set = set_defaults(options); !set) return tl::make_unexpected(set.error());
  if (auto set = set_from_environment(environment, options); !set) return tl::make_unexpected(set.error());
  for (const auto step : {set_given, set_positional}) {
    if (auto done = step(*parts, options); !done) return tl::make_unexpected(done.error());
  }
  if (auto checked = check_together(options); !checked) return tl::make_unexpected(checked.error());
  return options;
}

}  // namespace pillion
