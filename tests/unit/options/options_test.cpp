// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "flags.h"

namespace pillion {
namespace {

using std::chrono::milliseconds;
using Arguments = std::vector<std::string>;

Options parsed(const Arguments& arguments, const Environment& environment = {}) {
  auto result = parse_options(arguments, environment);
  INFO((result ? "" : result.error().message()));
  REQUIRE(result);
  REQUIRE(std::holds_alternative<Options>(*result));
  return std::get<Options>(*result);
}

std::string refused(const Arguments& arguments) {
  const auto result = parse_options(arguments, {});
  REQUIRE_FALSE(result);
  return result.error().message();
}

// Arguments that make a mode complete, with `flag` among them.
Arguments complete(Mode mode, const Arguments& flag) {
  Arguments arguments;
  switch (mode) {
    case Mode::serve:
      arguments = {"serve"};
      break;
    case Mode::record_attach:
    case Mode::record_command:
      arguments = {"record"};
      break;
    case Mode::install:
      arguments = {"install", "/somewhere"};
      break;
    case Mode::probe:
      arguments = {"probe", "live"};
      break;
    case Mode::inject:
      arguments = {"inject"};
      if (flag.empty() || !flag[0].starts_with("-pid")) arguments.insert(arguments.end(), {"-pid", "1"});
      break;
    case Mode::doctor:
      arguments = {"doctor"};
      break;
  }
  arguments.insert(arguments.end(), flag.begin(), flag.end());
  if (mode == Mode::serve && !flag.empty() && flag[0] == "-listen-mode=0660") {
    arguments.insert(arguments.end(), {"-listen", "unix:/x"});
  }
  if (mode == Mode::record_command) arguments.insert(arguments.end(), {"--", "true"});
  return arguments;
}

// A value that the flag takes and that is not its default; empty when there is none.
std::string value_for(const Flag& flag) {
  for (const char* text : {"127.0.0.1:7079", "true", "3s", "1GiB", "7", "4096", "never", "off", "json",
                           "debug", "kernel", "idle", "/x", "0660"}) {
    Options scratch;
    if (flag.set(scratch, text) && !flag.is_default(text)) return text;
  }
  return {};
}

TEST_CASE("no arguments: serve with the defaults") {
  const auto options = parsed({});
  CHECK(options.mode == Mode::serve);
  CHECK(options.listen.text() == "127.0.0.1:7070");
  CHECK(options.socket_dir == "/run/pillion");
  CHECK_FALSE(options.socket_dir_given);
  CHECK(options.wait_for_shim == milliseconds(60'000));
  CHECK(options.drain_every == milliseconds(50));
  CHECK(options.max_sessions == 64);
  CHECK(options.sample_permyriad == 100);
  CHECK(options.sample_mib_per_s == 64);
  CHECK(options.stack_bytes == 192 * 1024);
  CHECK(options.python);
  CHECK(options.events_rings == 16);
  CHECK(options.events_ring_kib == 1024);
  CHECK(options.stacks_rings == 8);
  CHECK(options.stacks_ring_kib == 2048);
  CHECK(options.finalize == Finalize::automatic);
  CHECK_FALSE(options.health_listen);
  CHECK_FALSE(options.pid);
}

TEST_CASE("-python is on or off") {
  CHECK_FALSE(parsed({"-python=off"}).python);
  CHECK(parsed({"record", "-python", "on"}).python);
  CHECK(parsed({"-kinds=kernel,stacks,python"}).python);
}

TEST_CASE("a flag can be written in each of Go's ways") {
  for (const Arguments& arguments : {Arguments{"-pid", "42"}, {"--pid", "42"}, {"-pid=42"}, {"--pid=42"}}) {
    CHECK(parsed(arguments).pid == 42u);
  }
  for (const Arguments& arguments : {Arguments{"-exit-with-workload"}, {"--exit-with-workload=true"}}) {
    CHECK(parsed(arguments).exit_with_workload);
  }
  CHECK_FALSE(parsed({"-exit-with-workload=false"}).exit_with_workload);
}

TEST_CASE("every flag works, or is refused by name and reason, in every mode") {
  for (const auto& flag : flags()) {
    for (unsigned bit = 0; bit < kModes; ++bit) {
      const auto mode = static_cast<Mode>(bit);
      const auto value = value_for(flag);
      const auto argument = std::string("-") + flag.name + "=" + value;
      INFO(argument << " for " << to_string(mode));
      REQUIRE_FALSE(value.empty());
      const auto result = parse_options(complete(mode, {argument}), {});
      if (const char* reason = flag.refused.reason(mode)) {
        REQUIRE_FALSE(result);
        CHECK(result.error().message().find(std::string("-") + flag.name + ": cannot be used with `" +
                                            to_string(mode)) != std::string::npos);
        CHECK(result.error().message().find(reason) != std::string::npos);
      } else {
        INFO((result ? "" : result.error().message()));
        CHECK(result);
      }
    }
  }
}

TEST_CASE("a default is never refused, in whatever words") {
  for (const auto& flag : flags()) {
    if (*flag.initial == '\0') continue;
    for (unsigned bit = 0; bit < kModes; ++bit) {
      const auto mode = static_cast<Mode>(bit);
      const auto argument = std::string("-") + flag.name + "=" + flag.initial;
      INFO(argument << " for " << to_string(mode));
      CHECK(parse_options(complete(mode, {argument}), {}));
    }
  }
  CHECK(parsed({"record", "-linger", "30000ms"}).mode == Mode::record_attach);
  CHECK(parsed({"install", "-sample-budget=1.00", "/x"}).mode == Mode::install);
  CHECK(refused({"record", "-linger", "31s"}).find("-linger") != std::string::npos);
}

TEST_CASE("values out of range are refused, naming the flag") {
  const auto argument =
      GENERATE("-listen=7070", "-listen=", "-health-listen=host:1", "-socket-dir=", "-pid=0", "-pid=-1",
               "-pid=4194305", "-pid=me", "-wait-for-shim=-1s", "-wait-for-shim=60", "-wait-for-shim=25h",
               "-drain-every=0", "-drain-every=11s", "-drain-every=100us", "-ring-budget=1KiB",
               "-ring-budget=128MB", "-ring-budget=99999999999GiB", "-max-sessions=0", "-max-sessions=1025",
               "-allow-uid=-1", "-allow-uid=root", "-allow-uid=4294967295", "-sample-budget=0",
               "-sample-budget=101", "-sample-budget=1.234", "-sample-budget=x", "-sample-mib=0",
               "-stack-bytes=1023", "-stack-bytes=1048577", "-events-rings=0", "-events-rings=65",
               "-events-ring-kib=500", "-events-ring-kib=2", "-stacks-rings=65", "-stacks-ring-kib=131072",
               "-kinds=kernels", "-kinds=stacks", "-lease=500ms", "-lease=11m", "-linger=2h",
               "-finalize=always", "-log-level=trace", "-insecure=maybe", "-python=yes", "-listen=unix:x",
               "-listen-mode=0666", "-listen-mode=600", "-token-file=", "-allow-host=a:80", "-allow-host=");
  const auto message = refused({argument});
  INFO(message);
  const std::string text = argument;
  CHECK(message.find("flag " + text.substr(0, text.find('='))) != std::string::npos);
}

TEST_CASE("what stands together must fit together") {
  CHECK(refused({"-listen", "0.0.0.0:7070"}).find("-insecure") != std::string::npos);
  CHECK(refused({"-listen", "0.0.0.0:7070"}).find("-token-file") != std::string::npos);
  CHECK(parsed({"-listen", "0.0.0.0:7070", "-insecure"}).listen.port == 7070);
  CHECK(parsed({"-listen", "0.0.0.0:7070", "-token-file", "/t"}).token_file == "/t");
  CHECK(parsed({"-listen=:1", "-insecure", "-allow-host=A.example.com", "-allow-host=.b"}).allow_hosts ==
        Arguments{"a.example.com", ".b"});
  CHECK(parsed({"-listen", "unix:/x", "-listen-mode", "0660"}).listen_mode == 0660);
  CHECK(parsed({"-health-listen", "unix:/x", "-listen-mode", "0660"}).listen.port == 7070);
  CHECK(refused({"-listen-mode", "0660"}).find("unix sockets") != std::string::npos);
  CHECK(refused({"-listen", "unix:/x", "-allow-host", "a"}).find("-allow-host") != std::string::npos);
  CHECK(parsed({"-health-listen", ":7071"}).health_listen->text() == "0.0.0.0:7071");
  CHECK(refused({"-stack-bytes", "65536", "-stacks-ring-kib", "64"}).find("-stacks-ring-kib") !=
        std::string::npos);
  CHECK(refused({"probe", "live", "-listen", "127.0.0.1:0"}).find("-listen") != std::string::npos);
}

TEST_CASE("usage errors name what they are about") {
  const auto [arguments, named] = GENERATE(table<Arguments, std::string>(
      {{{"-nope"}, "-nope"},
       {{"--nope=1"}, "-nope"},
       {{"fly"}, "fly"},
       {{"-pid"}, "-pid"},
       {{"-pid", "1", "-pid", "2"}, "given twice"},
       {{"serve", "extra"}, "extra"},
       {{"serve", "--", "x"}, "--"},
       {{"-pid", "1", "serve"}, "serve"},
       {{"record", "--"}, "command after --"},
       {{"record", "x"}, "'x'"},
       {{"install"}, "DIR"},
       {{"install", "a", "b"}, "'b'"},
       {{"probe"}, "probe live"},
       {{"probe", "dead"}, "probe live"},
       {{"record", "sleep", "1"}, "after --"},
       {{"inject", "5"}, "-pid"},
       {{"record", "-pid", "1", "--", "true"}, "-pid"},
       {{"record", "-type", "-o", "x"}, "-type: needs a value: gpu|idle|sync"},
       {{"record", "-type", "--", "x"}, "-type: needs a value"},
       {{"record", "-o", "--type=idle"}, "-o: needs a value: FILE"},
       {{"record", "-type", "cpu"}, "not one of gpu, idle, sync"},
       {{"record", "-type", "-x"}, "'-x' is not one of gpu"},
       {{"record", "-type", "idle", "-kinds", "memcpy,sync"}, "-type idle needs the kind kernel"},
       {{"record", "-kinds=kernel,memcpy", "-type=sync", "--", "true"}, "-type sync needs the kind sync"}}));
  const auto message = refused(arguments);
  INFO(message);
  CHECK(message.find(named) != std::string::npos);
}

TEST_CASE("the socket folder comes from the flag, then the environment, then the default") {
  const Environment environment{{"PILLION_SOCKET_DIR", "/env"}};
  CHECK(parsed({}, environment).socket_dir == "/env");
  CHECK(parsed({"-socket-dir", "/flag"}, environment).socket_dir == "/flag");
  CHECK(parsed({"record"}, environment).socket_dir == "/env");
}

TEST_CASE("a command's socket folder is its own, whatever the environment says; the flag is stronger") {
  const Environment environment{{"PILLION_SOCKET_DIR", "/env"}};
  CHECK_FALSE(parsed({"record", "--", "true"}, environment).socket_dir_given);
  const auto options = parsed({"record", "-socket-dir", "/flag", "--", "true"}, environment);
  CHECK(options.socket_dir_given);
  CHECK(options.socket_dir == "/flag");
}

TEST_CASE("record") {
  const auto attach =
      parsed({"record", "-duration", "1m30s", "-format", "json", "-allow-uid", "1", "-allow-uid=2"});
  CHECK(attach.mode == Mode::record_attach);
  CHECK(attach.duration == milliseconds(90'000));
  CHECK(attach.output == "profile.json");
  CHECK(attach.allow_uids == std::vector<uid_t>{1, 2});
  CHECK(parsed({"record"}).duration == milliseconds(20'000));
  CHECK(parsed({"record"}).output == "profile.pb.gz");

  const auto command = parsed({"record", "-o", "-", "--", "python", "-c", "pass", "--"});
  CHECK(command.mode == Mode::record_command);
  CHECK(command.command == Arguments{"python", "-c", "pass", "--"});
  CHECK_FALSE(command.duration);
  CHECK(command.output == "-");
}

TEST_CASE("install and probe") {
  const auto install = parsed({"install", "-cupti-dir", "/a", "/target", "-cupti-dir=/b"});
  CHECK(install.install_dir == "/target");
  CHECK(install.cupti_dirs == Arguments{"/a", "/b"});
  const auto probe = parsed({"probe", "ready", "-url", "http://127.0.0.1:7071/"});
  CHECK(probe.probe == Probe::ready);
  CHECK(probe.probe_target->text() == "127.0.0.1:7071");
  CHECK(parsed({"probe", "live", "-listen", "unix:/x", "-token-file=/t"}).listen.path == "/x");
  CHECK(parsed({"probe", "live", "-url", "unix:/x"}).probe_target->is_unix());
}

TEST_CASE("inject and doctor") {
  const auto inject = parsed({"inject", "-pid", "7", "-force"},
                             {{"PILLION_ALLOW_UID", "1000,65532"}, {"PILLION_LOG", "/tmp/shim.log"}});
  CHECK(inject.mode == Mode::inject);
  CHECK(inject.pid == 7u);
  CHECK(inject.force);
  CHECK(inject.shim_allow_uids == std::vector<std::uint32_t>{1000, 65532});
  CHECK(inject.shim_log == "/tmp/shim.log");
  CHECK(refused({"inject"}).find("-pid N") != std::string::npos);
  CHECK(refused({"serve", "-force"}).find("pillion inject") != std::string::npos);

  CHECK(parsed({"doctor"}).format == http::ProfileFormat::pprof);
  CHECK(parsed({"doctor", "-format", "text", "-pid=3"}).format_text);
  CHECK(parsed({"doctor", "-format=json"}).format == http::ProfileFormat::json);
  CHECK(refused({"doctor", "-format=folded"}).find("text or json") != std::string::npos);
  CHECK(refused({"record", "-format=text"}).find("-format") != std::string::npos);
}

TEST_CASE("version is text, whichever way it is asked for, and takes nothing else") {
  for (const Arguments& arguments :
       {Arguments{"-version"}, {"--version"}, {"version"}, {"serve", "-version"}}) {
    const auto result = parse_options(arguments, {});
    REQUIRE(result);
    REQUIRE(std::holds_alternative<Help>(*result));
    CHECK(std::get<Help>(*result).text.find("pillion " + std::string(PILLION_VERSION) + ", wire 1.") == 0);
  }
  CHECK(refused({"version", "-pid", "1"}).find("-pid") != std::string::npos);
  CHECK(refused({"version", "extra"}).find("extra") != std::string::npos);
}

TEST_CASE("help of a command by name") {
  const auto text = [](const Arguments& arguments) {
    const auto result = parse_options(arguments, {});
    REQUIRE(result);
    REQUIRE(std::holds_alternative<Help>(*result));
    return std::get<Help>(*result).text;
  };
  CHECK(text({"help", "record"}) == text({"record", "-help"}));
  CHECK(text({"help"}) == text({"-help"}));
  CHECK(text({"help", "record"}).find("PILLION_EAGER") != std::string::npos);
  CHECK(refused({"help", "fly"}).find("'fly'") != std::string::npos);
  CHECK(refused({"help", "record", "probe"}).find("'probe'") != std::string::npos);
}

std::string help(const Arguments& arguments) {
  const auto result = parse_options(arguments, {});
  REQUIRE(result);
  REQUIRE(std::holds_alternative<Help>(*result));
  return std::get<Help>(*result).text;
}

TEST_CASE("help is text, not an error, for every command") {
  for (const Arguments& arguments :
       {Arguments{"-help"}, {"--help"}, {"-h"}, {"record", "-help"}, {"install", "-help"}, {"probe", "-h"}}) {
    CHECK(help(arguments).find("-log-level") != std::string::npos);
  }
}

TEST_CASE(
    "each command's page says what it does, with flags, exit codes and an example, and is for it alone") {
  for (const std::string command : {"serve", "record", "inject", "doctor", "install", "probe"}) {
    INFO(command);
    const std::string page = help({command, "-help"});
    CHECK(page.starts_with("pillion " + command + ": "));
    for (const char* section :
         {"\nusage:\n  pillion ", "\nflags:\n  -", "\nexit codes:\n  0  ", "\nexample:\n  "}) {
      INFO(section);
      CHECK(page.find(section) != std::string::npos);
    }
    CHECK(page.find("\nflags:") < page.find("\nexit codes:"));
    CHECK(help({"-help"}).find("  pillion " + (command == "serve" ? "[serve]" : command) + " ") !=
          std::string::npos);
  }
  CHECK(help({"inject", "-help"}).find("-wait-for-shim") == std::string::npos);
  CHECK(help({"help", "serve"}) == help({"serve", "-h"}));
}

}  // namespace
}  // namespace pillion
