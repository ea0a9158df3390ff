// SPDX-License-Identifier: Apache-2.0
#include "maps_watch.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "own_proc.h"
#include "shim_log.h"

namespace pillion::shim {
namespace {

constexpr std::size_t kFirstBytes = std::size_t{1} << 20;
constexpr std::size_t kBytesMax = std::size_t{16} << 20;

std::atomic<std::uint32_t> generation{0};

struct LoaderCounters {
  unsigned long long adds;
  unsigned long long subs;
};

// Capture thread.
LoaderCounters last_counters;
bool counters_known;

// Control thread.
char* buffer;
std::size_t buffer_bytes;
std::uint64_t last_hash;

int take_counters(dl_phdr_info* info, std::size_t size, void* out) {
  if (size >= offsetof(dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
    *static_cast<LoaderCounters*>(out) = {info->dlpi_adds, info->dlpi_subs};
  }
  return 1;  // The counters are the same in every entry: one is enough.
}

bool grow_buffer() {
  const std::size_t wanted = buffer_bytes == 0 ? kFirstBytes : buffer_bytes * 2;
  if (wanted > kBytesMax) return false;
  void* grown = buffer == nullptr
                    ? ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                    : ::mremap(buffer, buffer_bytes, wanted, MREMAP_MAYMOVE);
  if (grown == MAP_FAILED) return false;
  buffer = static_cast<char*>(grown);
  buffer_bytes = wanted;
  return true;
}

// Whether the line "start-end perms ..." describes executable memory.
bool executable(const char* line, std::size_t bytes) {
  const char* space = static_cast<const char*>(std::memchr(line, ' ', bytes));
  return space != nullptr && space + 3 < line + bytes && space[3] == 'x';
}

// FNV-1a over the executable lines.
std::uint64_t hash_executable(const char* text, std::size_t bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (std::size_t at = 0; at < bytes;) {
    const char* line = text + at;
    const auto* end = static_cast<const char*>(std::memchr(line, '\n', bytes - at));
    const std::size_t length = end == nullptr ? bytes - at : static_cast<std::size_t>(end - line) + 1;
    if (executable(line, length)) {
      for (std::size_t i = 0; i < length; ++i) {
        hash = (hash ^ static_cast<unsigned char>(line[i])) * 0x100000001b3u;
      }
    }
    at += length;
  }
  return hash;
}

// Bytes read, 0 when nothing could be.
std::size_t read_all(int fd) {
  std::size_t used = 0;
  for (;;) {
    if (used == buffer_bytes && !grow_buffer()) {
      log_line("maps text cut", "at bytes", used);
      return used;
    }
    const ssize_t got = ::read(fd, buffer + used, buffer_bytes - used);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return used;
    used += static_cast<std::size_t>(got);
  }
}

}  // namespace

std::uint32_t maps_generation() { return generation.load(std::memory_order_relaxed); }

bool libraries_changed() {
  LoaderCounters now{};
  ::dl_iterate_phdr(take_counters, &now);
  const bool same = counters_known && now.adds == last_counters.adds && now.subs == last_counters.subs;
  last_counters = now;
  counters_known = true;
  return !same;
}

MapsText read_maps() {
  const int fd = open_own_proc("maps");
  if (fd < 0) return {nullptr, 0, maps_generation()};
  const std::size_t read = read_all(fd);
  ::close(fd);
  if (read == 0) return {nullptr, 0, maps_generation()};
  const std::size_t bytes = whole_lines(buffer, read, read);
  const std::uint64_t hash = hash_executable(buffer, bytes);
  if (hash != last_hash || maps_generation() == 0) {
    last_hash = hash;
    generation.fetch_add(1, std::memory_order_relaxed);
  }
  return {buffer, bytes, maps_generation()};
}

void release_maps() {
  if (buffer != nullptr) ::munmap(buffer, buffer_bytes);
  buffer = nullptr;
  buffer_bytes = 0;
}

std::size_t whole_lines(const char* text, std::size_t left, std::size_t most) {
  std::size_t bytes = left < most ? left : most;
  while (bytes > 0 && text[bytes - 1] != '\n') --bytes;
  return bytes;
}

}  // namespace pillion::shim
