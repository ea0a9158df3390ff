// SPDX-License-Identifier: Apache-2.0
#include "inject/injector.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <future>
#include <iostream>
#include <thread>
#include <vector>

#include "abi/pillion_abi.h"
#include "base/unique_fd.h"
#include "live_target.h"

namespace pillion::inject {
namespace {

using namespace std::chrono_literals;

InjectionSettings settings() {
  InjectionSettings made;
  made.shim_path = PILLION_SHIM;
  return made;
}

// The shim's first message to whoever connects to an abstract socket.
pillion_hello hello_from(const std::string& socket_name) {
  REQUIRE(socket_name.starts_with("@"));
  const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, socket_name.data() + 1, socket_name.size() - 1);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_name.size());
  REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) == 0);
  pillion_hello hello{};
  REQUIRE(::recv(socket.get(), &hello, sizeof hello, 0) == sizeof hello);
  return hello;
}

// What a count comes to once the target's own threads have done what they do.
int settled(const std::function<int()>& count, int wanted) {
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (count() != wanted && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
  return count();
}

// A broken injection is forgotten after the loader's patience.
InjectionOutcome inject_until_free(const Examination& found) {
  InjectionOutcome outcome;
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  do {
    outcome = inject(found, settings());
  } while (outcome.status == InjectionStatus::in_progress && std::chrono::steady_clock::now() < deadline);
  return outcome;
}

}  // namespace

TEST_CASE("a thread asleep in a system call lends itself and notices nothing", "[injector]") {
  const auto call = GENERATE("nanosleep", "poll", "ppoll", "read", "futex", "epoll_wait", "sigtimedwait",
                             "semtimedop", "recv", "block");
  INFO(call);
  LiveTarget target(call);
  const int files = target.open_files();
  const InjectionOutcome outcome = inject(target.found(), settings());
  INFO(outcome.text);
  REQUIRE(outcome.status == InjectionStatus::injected);
  const pillion_hello hello = hello_from(outcome.socket);
  CHECK(hello.pid == target.found().pid);
  CHECK((hello.flags & PILLION_HELLO_LATE) != 0);
  // The library's file and the shim's listening socket stay, one thread, no trace of the loader.
  CHECK(settled([&] { return target.open_files(); }, files + 2) == files + 2);
  // "read" has a second thread now and then, which sleeps better.
  if (std::string(call) != "read") {
    CHECK(outcome.tid == target.found().pid);
    CHECK(settled([&] { return target.threads(); }, 2) == 2);
  }
  CHECK(target.maps().find("pillion-loader") == std::string::npos);
  CHECK(target.end() == "whole 7");
}

TEST_CASE("a second injection finds the shim of the first", "[injector]") {
  LiveTarget target("nanosleep");
  REQUIRE(inject(target.found(), settings()).status == InjectionStatus::injected);
  const InjectionOutcome again = inject(target.found(), settings());
  CHECK(again.status == InjectionStatus::already_there);
  CHECK(again.text.find("already") != std::string::npos);
  CHECK(target.end() == "whole 7");
}

TEST_CASE("a second injection is told whose the first is, while a thread is borrowed and afterwards",
          "[injector]") {
  const Step step = GENERATE(Step::stopped, Step::claimed);
  LiveTarget target("nanosleep");
  int reached[2];
  int go_on[2];
  REQUIRE(::pipe(reached) == 0);
  REQUIRE(::pipe(go_on) == 0);
  // The helper process keeps no file but the first three: the pipes lie there meanwhile.
  const UniqueFd saved_in(::dup(0));
  const UniqueFd saved_out(::dup(1));
  ::dup2(go_on[0], 0);
  ::dup2(reached[1], 1);
  InjectionSettings slow = settings();
  InjectionSettings hasty = settings();
  hasty.thread_patience = 200ms;  // the thread is the other's
  slow.observer = [step](Step now) {
    char byte = 0;
    if (now == step && ::write(1, &byte, 1) == 1) (void)!::read(0, &byte, 1);
  };
  auto first = std::async(std::launch::async, [&] { return inject(target.found(), slow); });
  char byte = 0;
  const bool waits = ::read(reached[0], &byte, 1) == 1;
  const auto seen = examine(target.found().pid, {.force = true});
  const InjectionOutcome second = inject(target.found(), hasty);
  const bool released = ::write(go_on[1], &byte, 1) == 1;
  const InjectionOutcome outcome = first.get();
  ::dup2(saved_in.get(), 0);
  ::dup2(saved_out.get(), 1);
  for (const int fd : {reached[0], reached[1], go_on[0], go_on[1]}) ::close(fd);
  REQUIRE(waits);
  REQUIRE(released);
  CHECK(outcome.status == InjectionStatus::injected);
  const std::string whose = "by process " + std::to_string(::getpid()) + " (unit_inject) of user ";
  CHECK(second.status == InjectionStatus::in_progress);
  INFO(second.text);
  CHECK(second.text.find(whose) != std::string::npos);
  if (step == Step::stopped) {
    REQUIRE_FALSE(seen);
    CHECK(seen.error().kind == RefusalReason::injecting);
    CHECK(seen.error().reason.find(whose) != std::string::npos);
  }
  CHECK(target.end() == "whole 7");
}

TEST_CASE("of racing injections one comes through, the others touch nothing", "[injector]") {
  LiveTarget target("nanosleep", 2);
  std::vector<std::future<InjectionOutcome>> racing;
  for (int at = 0; at < 4; ++at) {
    racing.push_back(std::async(std::launch::async, [&] { return inject(target.found(), settings()); }));
  }
  int injected = 0;
  for (auto& one : racing) {
    const InjectionOutcome outcome = one.get();
    INFO(outcome.text);
    injected += outcome.status == InjectionStatus::injected ? 1 : 0;
    // The thread can have one tracer only.
    CHECK((outcome.status != InjectionStatus::failed || outcome.text.find("attach") != std::string::npos));
  }
  if (injected == 0) injected = inject_until_free(target.found()).status == InjectionStatus::injected ? 1 : 0;
  CHECK(injected == 1);
  const std::string maps = target.maps();
  std::size_t copies = 0;
  for (std::size_t at = 0; (at = maps.find(" 00000000 ", at)) != std::string::npos; ++at) {
    const std::size_t end = maps.find('\n', at);
    copies += maps.substr(at, end - at).find("libpillion.so") != std::string::npos ? 1 : 0;
  }
  CHECK(copies == 1);
  CHECK(target.end() == "whole 7");
}

TEST_CASE("an injector killed after any step leaves a target that can be injected into", "[injector]") {
  const auto step =
      static_cast<Step>(GENERATE(Catch::Generators::range(1u, static_cast<unsigned>(Step::count))));
  INFO(step_name(step));
  LiveTarget target("nanosleep", 1);
  InjectionSettings deadly = settings();
  deadly.observer = [step](Step reached) {
    if (reached == step) ::raise(SIGKILL);
  };
  const InjectionOutcome broken = inject(target.found(), deadly);
  INFO(broken.text);
  CHECK(broken.status == InjectionStatus::failed);
  REQUIRE(broken.last_step == step);
  const InjectionOutcome again = inject_until_free(target.found());
  INFO(again.text);
  if (step < Step::library_loaded) {
    CHECK(again.status == InjectionStatus::injected);
  } else {
    CHECK(again.status == InjectionStatus::already_there);
  }
  CHECK(target.end() == "whole 7");
}

TEST_CASE("a target that dies after any step is reported as gone", "[injector]") {
  const auto step =
      static_cast<Step>(GENERATE(Catch::Generators::range(1u, static_cast<unsigned>(Step::shim_started))));
  INFO(step_name(step));
  LiveTarget target("nanosleep", 1);
  InjectionSettings deadly = settings();
  const pid_t pid = target.pid();
  deadly.observer = [step, pid](Step reached) {
    if (reached == step) ::kill(pid, SIGKILL);
  };
  const InjectionOutcome outcome = inject(target.found(), deadly);
  INFO(outcome.text);
  CHECK(outcome.status == InjectionStatus::target_gone);
}

TEST_CASE("injections into programs that live on malloc, and how long their thread stood still",
          "[injector]") {
  constexpr int kTargets = 64;
  std::vector<std::uint64_t> stopped;
  for (int at = 0; at < kTargets; ++at) {
    LiveTarget target("nanosleep", 3);
    const InjectionOutcome outcome = inject(target.found(), settings());
    INFO(outcome.text);
    REQUIRE(outcome.status == InjectionStatus::injected);
    stopped.push_back(outcome.stopped_ns);
    REQUIRE(target.end() == "whole 7");
  }
  std::sort(stopped.begin(), stopped.end());
  std::cout << "stopped for " << stopped[stopped.size() / 2] / 1000 << " us median, " << stopped.back() / 1000
            << " us at most, " << kTargets << " injections\n";
}

TEST_CASE("a process of which no thread sleeps is left alone", "[injector]") {
  LiveTarget target("spin");
  InjectionSettings hasty = settings();
  hasty.thread_patience = 100ms;
  const InjectionOutcome outcome = inject(target.found(), hasty);
  CHECK(outcome.status == InjectionStatus::failed);
  CHECK(outcome.text.find("no thread of it sleeps") != std::string::npos);
  CHECK(target.end() == "whole 7");
}

TEST_CASE("a stopped process is left stopped", "[injector]") {
  LiveTarget target("nanosleep");
  ::kill(target.pid(), SIGSTOP);
  const InjectionOutcome outcome = inject(target.found(), settings());
  CHECK(outcome.status == InjectionStatus::failed);
  ::kill(target.pid(), SIGCONT);
  CHECK(inject(target.found(), settings()).status == InjectionStatus::injected);
  CHECK(target.end() == "whole 7");
}

TEST_CASE("a library that cannot be loaded: the linker's words, and no trace", "[injector]") {
  LiveTarget target("nanosleep");
  const int files = target.open_files();
  InjectionSettings wrong = settings();
  wrong.shim_path = PILLION_UNLOADABLE;
  const InjectionOutcome outcome = inject(target.found(), wrong);
  INFO(outcome.text);
  CHECK(outcome.status == InjectionStatus::failed);
  CHECK(outcome.text.find("undefined symbol: pillion_test_nowhere") != std::string::npos);
  CHECK(target.open_files() == files);
  CHECK(target.threads() == 1);
  CHECK(target.maps().find("pillion") == std::string::npos);
  CHECK(target.end() == "whole 7");
}

}  // namespace pillion::inject
