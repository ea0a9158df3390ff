// SPDX-License-Identifier: Apache-2.0
//
// A program that is injected into: its main thread sleeps again and again in the system call that the first
// argument names, `second argument` threads live on malloc beside it. Tells its own functions' addresses on
// the first line, then reads standard input; at its end it says "whole", or what an injection let it see.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

std::atomic<bool> ending{false};
std::atomic<int> broken{0};
std::atomic<std::uint64_t> rounds{0};

constexpr long kSleepMs = 20;

void complain(const char* what, long result) {
  if (broken.fetch_add(1) == 0) std::printf("broken: %s gave %ld, errno %d\n", what, result, errno);
}

void expect(const char* what, long result, long wanted, int error = 0) {
  if (result != wanted || (wanted == -1 && errno != error)) complain(what, result);
}

const std::uint8_t* find_bytes(const void* start, std::size_t size, const void* bytes, std::size_t length) {
  return static_cast<const std::uint8_t*>(::memmem(start, size, bytes, length));
}

// libc's text holds both sequences; the restorer lies somewhere around sigaction.
std::uint64_t sigreturn_address() {
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long start = 0;
    unsigned long end = 0;
    if (std::strstr(line, "libc.so.6") == nullptr || std::sscanf(line, "%lx-%lx r-xp", &start, &end) != 2)
      continue;
    if (std::strstr(line, "r-xp") == nullptr) continue;
    const auto* found =
        find_bytes(reinterpret_cast<void*>(start), end - start, "\x48\xc7\xc0\x0f\0\0\0\x0f\x05", 9);
    std::fclose(maps);
    return reinterpret_cast<std::uint64_t>(found);
  }
  return 0;
}

void announce() {
  const auto address = [](const char* name) {
    return reinterpret_cast<std::uint64_t>(::dlsym(RTLD_DEFAULT, name));
  };
  const auto* call = reinterpret_cast<const std::uint8_t*>(address("syscall"));
  std::printf("%lu %lu %lu %lu %lu %lu %lu\n", address("pthread_create"), address("pthread_detach"),
              address("dlopen"), address("dlerror"), address("munmap"),
              reinterpret_cast<std::uint64_t>(find_bytes(call, 64, "\x0f\x05", 2)), sigreturn_address());
  std::fflush(stdout);
}

// Hot on the allocator's locks, with vector registers in use all the time.
void churn() {
  std::vector<std::string> kept(64);
  for (std::uint64_t at = 1; !ending.load(); ++at) {
    std::string text(at * 37 % 5000 + 1, static_cast<char>('a' + at % 26));
    kept[at % kept.size()] = text;
    if (text.front() != text.back()) complain("memory", 0);
    if (at % 512 == 0) std::thread([] { (void)std::string(70'000, 'x'); }).join();
  }
}

int pipe_ends[2];
int sockets[2];
int epoll;
int semaphore;

void open_what_is_waited_for() {
  (void)!::pipe(pipe_ends);
  ::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
  const timeval limit{0, kSleepMs * 1000};
  ::setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  epoll = ::epoll_create1(0);
  semaphore = ::semget(IPC_PRIVATE, 1, 0600);
}

void sleep_in(const std::string& call) {
  const timespec time{0, kSleepMs * 1'000'000};
  if (call == "nanosleep") {
    expect("nanosleep", ::nanosleep(&time, nullptr), 0);
  } else if (call == "poll") {
    pollfd none{pipe_ends[0], POLLIN, 0};
    expect("poll", ::poll(&none, 1, kSleepMs), 0);
  } else if (call == "ppoll") {
    sigset_t mask;
    ::sigemptyset(&mask);
    pollfd none{pipe_ends[0], POLLIN, 0};
    expect("ppoll", ::ppoll(&none, 1, &time, &mask), 0);
  } else if (call == "read") {
    std::thread writer([&] {
      ::nanosleep(&time, nullptr);
      (void)!::write(pipe_ends[1], "x", 1);
    });
    char byte = 0;
    expect("read", ::read(pipe_ends[0], &byte, 1), 1);
    writer.join();
  } else if (call == "futex") {
    static std::uint32_t word = 0;
    timespec until{};
    ::clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += time.tv_nsec;
    if (until.tv_nsec >= 1'000'000'000) ++until.tv_sec, until.tv_nsec -= 1'000'000'000;
    expect("futex", ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 0, &until, nullptr, ~0u), -1, ETIMEDOUT);
  } else if (call == "epoll_wait") {
    epoll_event event{};
    expect("epoll_wait", ::epoll_wait(epoll, &event, 1, kSleepMs), 0);
  } else if (call == "sigtimedwait") {
    sigset_t user;
    ::sigemptyset(&user);
    ::sigaddset(&user, SIGUSR2);
    expect("sigtimedwait", ::sigtimedwait(&user, nullptr, &time), -1, EAGAIN);
  } else if (call == "semtimedop") {
    sembuf down{0, -1, 0};
    expect("semtimedop", ::semtimedop(semaphore, &down, 1, &time), -1, EAGAIN);
  } else if (call == "recv") {
    char byte = 0;
    expect("recv", ::recv(sockets[0], &byte, 1, 0), -1, EAGAIN);
  } else if (call == "spin") {
    for (int at = 0; at < 1'000'000; ++at) {
      asm volatile("");
    }
  }
  rounds.fetch_add(1);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string call = argc > 1 ? argv[1] : "nanosleep";
  const int threads = argc > 2 ? std::atoi(argv[2]) : 0;
  _mm_setcsr(_mm_getcsr() | 0x8040);  // flush to zero, denormals are zero: what a wrong restore would lose
  const unsigned control = _mm_getcsr() & ~0x3fu;
  sigset_t before;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  open_what_is_waited_for();
  announce();
  std::vector<std::thread> churning;
  for (int at = 0; at < threads; ++at) churning.emplace_back(churn);
  ::fcntl(0, F_SETFL, O_NONBLOCK);
  char byte = 0;
  while (::read(0, &byte, 1) < 0) {
    if (call == "block") {
      ::fcntl(0, F_SETFL, 0);
      continue;
    }
    sleep_in(call);
    sigset_t now;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
    if (std::memcmp(&now, &before, sizeof(std::uint64_t)) != 0) complain("the signal mask", 0);
    if ((_mm_getcsr() & ~0x3fu) != control) complain("the vector unit's control word", _mm_getcsr());
  }
  ::semctl(semaphore, 0, IPC_RMID);
  ending.store(true);
  for (std::thread& thread : churning) thread.join();
  if (broken.load() == 0) std::printf("whole\n");
  return broken.load() == 0 ? 7 : 1;
}
