// SPDX-License-Identifier: Apache-2.0
#include "inject/target_look.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <cstring>
#include <thread>

#include <catch2/catch_test_macros.hpp>

#include "proc_fixture.h"

using namespace pillion::inject;

namespace {

constexpr std::uint32_t kPid = 77;

AttachAnswer granted(std::uint32_t) { return {true, nullptr}; }
AttachAnswer denied(std::uint32_t) { return {false, nullptr}; }

TargetLook look_at_fake(const FakeProc& proc, AttachProbe probe = denied) {
  return look_at_target(kPid, {proc.root(), std::move(probe)});
}

// A copy of this program that waits to be killed.
class Child {
 public:
  Child() : pid_(::fork()) {
    if (pid_ != 0) return;
    for (;;) ::pause();
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  [[nodiscard]] std::uint32_t pid() const { return static_cast<std::uint32_t>(pid_); }

 private:
  const pid_t pid_;
};

// libc's own, also where a sanitizer has put one of its in front.
std::uint64_t address_of(const char* function) {
  void* libc = ::dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  return reinterpret_cast<std::uint64_t>(::dlsym(libc, function));
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a process's functions are found in its memory") {
  const Child child;
  const auto found = examine(child.pid(), {.force = true});
  REQUIRE(found);
  // The child has our memory, so our own loader knows the answers.
  CHECK(found->functions.pthread_create == address_of("pthread_create"));
  CHECK(found->functions.pthread_detach == address_of("pthread_detach"));
  CHECK(found->functions.dlopen == address_of("dlopen"));
  CHECK(found->functions.dlerror == address_of("dlerror"));
  CHECK(found->functions.munmap == address_of("munmap"));
  CHECK(found->functions.dlopen_flag == 0);
  const auto* instruction = reinterpret_cast<const void*>(found->functions.syscall_instruction);
  CHECK(std::memcmp(instruction, "\x0f\x05", 2) == 0);
  Dl_info info;
  REQUIRE(::dladdr(instruction, &info) != 0);
  CHECK(std::string(info.dli_sname) == "syscall");
  CHECK(std::memcmp(reinterpret_cast<const void*>(found->functions.sigreturn),
                    "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", 9) == 0);
  CHECK(found->pid == child.pid());
  CHECK(found->inner_pid == child.pid());
  CHECK(found->start_time > 0);
  CHECK(found->pid_namespace > 0);
  CHECK(found->own_mount_namespace);
  CHECK(found->own_network_namespace);
  CHECK(found->delivery == Delivery::memfd);
  CHECK(found->file_directory == "/tmp");
  CHECK_FALSE(found->resident);
}

TEST_CASE("without CUDA: refused unless forced") {
  const Child child;
  const auto found = examine(child.pid());
  REQUIRE_FALSE(found);
  CHECK(found.error().kind == RefusalReason::no_cuda);
  CHECK(contains(found.error().hint, "-force"));
}

TEST_CASE("pillion itself, a thread, no process, a process that has ended") {
  const auto own = examine(static_cast<std::uint32_t>(::getpid()));
  REQUIRE_FALSE(own);
  CHECK(own.error().kind == RefusalReason::never_a_target);

  std::atomic<std::uint32_t> tid{0};
  std::atomic<bool> end{false};
  std::thread thread([&] {
    tid = static_cast<std::uint32_t>(::gettid());
    tid.notify_one();
    end.wait(false);
  });
  tid.wait(0);
  const auto of_thread = examine(tid);
  end = true;
  end.notify_one();
  thread.join();
  REQUIRE_FALSE(of_thread);
  CHECK(of_thread.error().kind == RefusalReason::never_a_target);
  CHECK(of_thread.error().hint == "-pid " + std::to_string(::getpid()));

  const pid_t zombie = ::fork();
  if (zombie == 0) ::_exit(0);
  siginfo_t info;
  REQUIRE(::waitid(P_PID, static_cast<id_t>(zombie), &info, WEXITED | WNOWAIT) == 0);
  const auto ended = examine(static_cast<std::uint32_t>(zombie));
  ::waitpid(zombie, nullptr, 0);
  REQUIRE_FALSE(ended);
  CHECK(ended.error().kind == RefusalReason::no_process);
  const auto gone = examine(static_cast<std::uint32_t>(zombie));
  REQUIRE_FALSE(gone);
  CHECK(gone.error().kind == RefusalReason::no_process);
  CHECK(contains(gone.error().hint, "shareProcessNamespace"));
}

TEST_CASE("a leader that has ended while threads live is looked at through one of them") {
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::thread([&ready] {
      // Until the leader has gone: it is then a zombie in our own status.
      for (char state = 'S'; state != 'Z';) {
        state = parse_status(ProcessFolder::open("/proc", static_cast<std::uint32_t>(::getpid()))
                                 .value()
                                 .read("status")
                                 .value())
                    .state;
      }
      (void)!::write(ready[1], "x", 1);
      for (;;) ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);  // this thread alone, and without unwinding
  }
  ::close(ready[1]);
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  const auto found = examine(static_cast<std::uint32_t>(child), {.force = true});
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  if (!found) FAIL(found.error().message());
  CHECK(found->functions.dlopen == address_of("dlopen"));
}

TEST_CASE("a stopped process is refused until it goes on") {
  const Child child;
  ::kill(static_cast<pid_t>(child.pid()), SIGSTOP);
  int status = 0;
  REQUIRE(::waitpid(static_cast<pid_t>(child.pid()), &status, WUNTRACED) > 0);
  const auto stopped = examine(child.pid(), {.force = true});
  REQUIRE_FALSE(stopped);
  CHECK(stopped.error().kind == RefusalReason::not_a_target);
  CHECK(contains(stopped.error().hint, "kill -CONT"));
  ::kill(static_cast<pid_t>(child.pid()), SIGCONT);
  REQUIRE(::waitpid(static_cast<pid_t>(child.pid()), &status, WCONTINUED) > 0);
  CHECK(examine(child.pid(), {.force = true}));
}

TEST_CASE("a process that is traced is refused, and its tracer named") {
  const Child child;
  REQUIRE(::ptrace(PTRACE_SEIZE, static_cast<pid_t>(child.pid()), nullptr, nullptr) == 0);
  const auto traced = examine(child.pid(), {.force = true});
  REQUIRE(::ptrace(PTRACE_INTERRUPT, static_cast<pid_t>(child.pid()), nullptr, nullptr) == 0);
  int status = 0;
  REQUIRE(::waitpid(static_cast<pid_t>(child.pid()), &status, 0) > 0);
  REQUIRE(::ptrace(PTRACE_DETACH, static_cast<pid_t>(child.pid()), nullptr, nullptr) == 0);
  REQUIRE_FALSE(traced);
  CHECK(traced.error().kind == RefusalReason::traced);
  CHECK(contains(traced.error().reason, "by process " + std::to_string(::getpid()) + " (unit_inject)"));
  CHECK(examine(child.pid(), {.force = true}));
}

TEST_CASE("a child between vfork and exec is refused: it runs in its parent's memory") {
  // What vfork does to memory, without its stop of the parent.
  alignas(16) static char stack[64 * 1024];
  const auto wait_for_end = [](void*) {
    for (;;) ::pause();
    return 0;
  };
  const pid_t child = ::clone(wait_for_end, stack + sizeof(stack), CLONE_VM | SIGCHLD, nullptr);
  REQUIRE(child > 0);
  const auto found = examine(static_cast<std::uint32_t>(child), {.force = true});
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  REQUIRE_FALSE(found);
  CHECK(found.error().kind == RefusalReason::not_a_target);
  CHECK(contains(found.error().hint, "-pid " + std::to_string(::getpid())));
}

TEST_CASE("a thread of the kernel, by its flag") {
  FakeProc proc;
  proc.add({.pid = kPid, .flags = 0x00200040});
  CHECK(look_at_fake(proc).process->kind == RefusalReason::kernel_thread);
}

TEST_CASE("an inner pid that was meant for an outer one is explained") {
  FakeProc proc;
  proc.add({.pid = 4321, .pids = "4321\t77"});
  const auto look = look_at_fake(proc);
  REQUIRE(look.process);
  CHECK(look.process->kind == RefusalReason::no_process);
  CHECK(contains(look.process->hint, "-pid 4321"));
}

TEST_CASE("another injection that has the process is told from a debugger, and whose it is") {
  FakeProc proc;
  FakeProcess target;
  target.pid = kPid;
  target.tracer = 90;
  proc.add(target);
  FakeProcess helper;
  helper.pid = 90;
  helper.name = "pillion-inject";
  helper.parent = 89;
  helper.uid = 7;
  proc.add(helper);
  FakeProcess parent;
  parent.pid = 89;
  parent.name = "pillion";
  proc.add(parent);
  const auto seen = look_at_fake(proc).tracer;
  REQUIRE(seen);
  CHECK(seen->kind == RefusalReason::injecting);
  CHECK(contains(seen->reason, "is in progress, by process 89 (pillion) of user 7"));
  // Whose parent cannot be seen is named itself.
  helper.parent = 0;
  proc.add(helper);
  CHECK(contains(look_at_fake(proc).tracer->reason, "by process 90 (pillion-inject) of user 7"));
}

TEST_CASE("a tracer that this PID namespace cannot see") {
  FakeProc proc;
  proc.add_self(0, ~0ull);
  proc.add({.pid = kPid, .state = 't'});
  CHECK(contains(look_at_fake(proc).tracer->reason, "that pillion cannot see"));
}

TEST_CASE("no right to look: the rights of both are compared") {
  FakeProc proc;
  proc.add_self(1000, 0);
  proc.set_yama(1);
  proc.add({.pid = kPid, .uid = 1000});
  const auto look = look_at_fake(proc);
  REQUIRE(look.access);
  CHECK(contains(look.access->reason, "ptrace_scope = 1"));
  CHECK(look.refusal({})->kind == RefusalReason::not_permitted);
  CHECK(look.refusal({.force = true})->kind == RefusalReason::not_permitted);
}

TEST_CASE("filters: the container's are no obstacle, what comes on top is, unless forced") {
  const auto look_with = [](unsigned of_first, unsigned of_target, bool target_is_first) {
    FakeProc proc;
    proc.add_self(0, ~0ull);
    proc.add({.pid = 1});
    proc.add({.pid = 50, .parent = 1, .pids = "50\t1", .seccomp_filters = of_first});
    proc.add(
        {.pid = kPid, .parent = target_is_first ? 1u : 50u, .pids = "77\t2", .seccomp_filters = of_target});
    return look_at_fake(proc, granted);
  };
  CHECK_FALSE(look_with(1, 1, false).seccomp);
  CHECK_FALSE(look_with(0, 0, false).seccomp);
  CHECK_FALSE(look_with(2, 2, false).seccomp);  // containers within containers
  CHECK_FALSE(look_with(0, 1, true).seccomp);
  CHECK(look_with(0, 1, false).seccomp);
  CHECK(look_with(1, 2, false).seccomp);
  CHECK(look_with(0, 2, true).seccomp);
  CHECK(look_with(1, 2, false).seccomp->kind == RefusalReason::seccomp);
}

TEST_CASE("which obstacle counts: the first, and a resident shim ends the search") {
  TargetLook look;
  look.seccomp = Refusal{RefusalReason::seccomp, "", ""};
  look.cuda = Refusal{RefusalReason::no_cuda, "", ""};
  CHECK(look.refusal({})->kind == RefusalReason::no_cuda);
  CHECK_FALSE(look.refusal({.force = true}));
  look.filters.mode = 1;
  CHECK(look.refusal({.force = true})->kind == RefusalReason::seccomp);
  look.tracer = Refusal{RefusalReason::traced, "", ""};
  CHECK(look.refusal({})->kind == RefusalReason::traced);
  look.examination.resident = ResidentShim{"/opt/libpillion.so", ""};
  CHECK_FALSE(look.refusal({}));
  look.process = Refusal{RefusalReason::no_process, "", ""};
  CHECK(look.refusal({})->kind == RefusalReason::no_process);
}
