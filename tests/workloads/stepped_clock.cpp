// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

// Preloaded into a program: its CLOCK_REALTIME is off by the nanoseconds that stand in the file of
// STEPPED_CLOCK_FILE, as if somebody had set the machine's time when the file was written.
namespace {

long long step_ns() {
  static const char* const path = std::getenv("STEPPED_CLOCK_FILE");
  const int fd = path != nullptr ? ::open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return 0;
  char text[32] = {};
  const ssize_t got = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  return got > 0 ? std::strtoll(text, nullptr, 10) : 0;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* out) noexcept {
  using Real = int (*)(clockid_t, timespec*);
  static const auto real = reinterpret_cast<Real>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, out);
  if (result != 0 || clock != CLOCK_REALTIME) return result;
  const long long ns = out->tv_nsec + step_ns() % 1'000'000'000;
  out->tv_sec += step_ns() / 1'000'000'000 + (ns >= 1'000'000'000 ? 1 : ns < 0 ? -1 : 0);
  out->tv_nsec = static_cast<long>((ns + 1'000'000'000) % 1'000'000'000);
  return 0;
}
