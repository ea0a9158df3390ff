// SPDX-License-Identifier: Apache-2.0
//
// What a start, a session and an end must not be able to race with. Each case names what would be undone.
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <chrono>
#include <string>

#include "host_process.h"
#include "test_peer.h"

using namespace pillion::shim;
using namespace pillion::shim::test;

namespace {

using Clock = std::chrono::steady_clock;

// This process and those it starts on one processor, so that a thread which is merely started has not run
// yet.
class OneProcessor {
 public:
  OneProcessor() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &one);
    }
    ::sched_setaffinity(0, sizeof one, &one);
  }
  ~OneProcessor() { ::sched_setaffinity(0, sizeof before_, &before_); }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

 private:
  cpu_set_t before_;
};

std::size_t control_threads(HostProcess& host) {
  const std::string names = host.ask("masks");
  std::size_t found = 0;
  for (std::size_t at = names.find("pillion-control"); at != std::string::npos;
       at = names.find("pillion-control", at + 1))
    ++found;
  return found;
}

// The first name that a sidecar would take for a shim's; empty while there is none.
std::string first_socket(const std::string& directory) {
  std::string found;
  DIR* open = ::opendir(directory.c_str());
  while (const dirent* entry = open != nullptr ? ::readdir(open) : nullptr) {
    if (std::string(entry->d_name).starts_with(PILLION_SOCKET_PREFIX)) found = entry->d_name;
  }
  if (open != nullptr) ::closedir(open);
  return found;
}

struct Look {
  unsigned mode;
  int error;  // of connect()
};

Look look_at(const std::string& path) {
  Look look{};
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) look.mode = status.st_mode & 0777u;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) look.error = errno;
  ::close(fd);
  return look;
}

// A program with a shim, which stops before and after every system call of its main thread.
class StoppedProgram {
 public:
  explicit StoppedProgram(const std::string& directory) : pid_(::fork()) {
    if (pid_ != 0) return;
    const std::string variable = "PILLION_SOCKET_DIR=" + directory;
    const char* environment[] = {variable.c_str(), nullptr};
    const char* words[] = {SHIM_HOST, nullptr};
    const int nothing = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) ::dup2(nothing, fd);  // its input's end ends it
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::execve(SHIM_HOST, const_cast<char**>(words), const_cast<char**>(environment));
    ::_exit(127);
  }
  ~StoppedProgram() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  StoppedProgram(const StoppedProgram&) = delete;
  StoppedProgram& operator=(const StoppedProgram&) = delete;

  // Lets it go on to its next stop. False when it has ended.
  bool next_call() {
    int status = 0;
    if (going_ && ::ptrace(PTRACE_SYSCALL, pid_, nullptr, nullptr) != 0) return false;
    going_ = true;
    return ::waitpid(pid_, &status, 0) == pid_ && WIFSTOPPED(status);
  }

 private:
  pid_t pid_;
  bool going_ = false;
};

bool armed(Peer& peer) {
  peer.send(PILLION_QUERY, pillion_query{});
  return (peer.expect<pillion_hello>(PILLION_HELLO).flags & PILLION_HELLO_ARMED) != 0;
}

}  // namespace

TEST_CASE("what a sidecar connects to is there when the entry point returns, before CUDA is initialised") {
  const OneProcessor pinned;
  for (int times = 0; times < 10; ++times) {
    SocketDirectory directory;
    HostProcess host(directory);
    CHECK(host.ask("sockets") == "1");
  }
}

// The program stops at each of its system calls, and at each the name, if there is one, is tried.
TEST_CASE("a socket that can be seen can be connected to") {
  SocketDirectory directory;
  StoppedProgram program(directory.path());
  std::string name;
  int looks = 0;
  for (int calls = 0; calls < 10'000 && looks < 5 && program.next_call(); ++calls) {
    name = first_socket(directory.path());
    if (name.empty()) continue;
    ++looks;
    const Look look = look_at(directory.path() + "/" + name);
    CHECK(look.mode == 0666);
    CHECK(look.error == 0);
  }
  CHECK(looks == 5);
}

TEST_CASE("the entry point called again, also from within and by 32 threads at once, starts nothing more") {
  SocketDirectory directory;
  HostProcess host(directory);
  const std::string name = directory.names();
  CHECK(host.ask("storm") == "32");
  CHECK(directory.names() == name);
  CHECK(eventually([&] { return control_threads(host) == 1; }));
  Peer peer(host.socket_path());
  static_cast<void>(peer.expect<pillion_hello>(PILLION_HELLO));
  CHECK(control_threads(host) == 1);
}

TEST_CASE("a DISARM of another session changes nothing") {
  SocketDirectory directory;
  HostProcess host(directory);
  Peer peer(host.socket_path());
  static_cast<void>(peer.expect<pillion_hello>(PILLION_HELLO));
  SessionOffer offer(5);
  peer.send(PILLION_ARM, offer.arm, offer.fds());
  static_cast<void>(peer.expect<pillion_armed>(PILLION_ARMED));
  peer.send(PILLION_DISARM, pillion_disarm{{}, 4, 0, 0});
  peer.send(PILLION_FLUSH, pillion_flush{{}, 77, 1, 0});
  CHECK(peer.expect<pillion_flushed>(PILLION_FLUSHED).cupti_result == 0);  // it is armed
  peer.send(PILLION_DISARM, pillion_disarm{{}, 5, 0, 0});
  CHECK(peer.expect<pillion_disarmed>(PILLION_DISARMED).generation == 5);
}

TEST_CASE("a session's memory stays until the thread that uses it is through") {
  SocketDirectory directory;
  HostProcess host(directory, {{"FAKE_DISARM_MS", "600"}, {"FAKE_PRODUCERS", "2"}});
  Peer peer(host.socket_path());
  static_cast<void>(peer.expect<pillion_hello>(PILLION_HELLO));
  for (std::uint64_t generation = 1; generation <= 2; ++generation) {
    SessionOffer offer(generation);
    peer.send(PILLION_ARM, offer.arm, offer.fds());
    static_cast<void>(peer.expect<pillion_armed>(PILLION_ARMED));
    const auto begin = Clock::now();
    peer.send(PILLION_DISARM, pillion_disarm{{}, generation, 0, 0});
    CHECK(armed(peer));  // until it is not
    CHECK(peer.expect<pillion_disarmed>(PILLION_DISARMED).generation == generation);
    CHECK(Clock::now() - begin >= std::chrono::milliseconds(600));
  }
}
