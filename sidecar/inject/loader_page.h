// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// The memory file by which an injector and the loader, a small thread of its making in the target, speak. The
// first page is the loader's code and what it is told at its start, mapped there readable and executable; the
// rest is data.
namespace pillion::inject {

inline constexpr std::size_t kCodeBytes = 4096;
inline constexpr std::size_t kConstantsOffset = 0xf00;
inline constexpr std::size_t kDataBytes = 12288;
inline constexpr std::size_t kLoaderFileBytes = kCodeBytes + kDataBytes;

// In the code page, at kConstantsOffset.
struct LoaderConstants {
  std::int64_t file = -1;            // the descriptor of this memory file, in the target
  std::uint64_t munmap = 0;          // functions of the target's libc
  std::uint64_t pthread_detach = 0;  // 0: none
};

enum class LoaderState : std::uint32_t {
  idle = 0,
  request = 1,  // by the injector: do as the fields say
  done = 2,     // by the loader: `result` is there
  quit = 3,     // by the injector: clean up and end
  left = 4      // by the loader: it is ending; nothing more is answered
};

// In the data. The loader's code knows the offsets.
struct LoaderData {
  static constexpr std::size_t kKept = 6;
  std::uint32_t state = 0;  // LoaderState; futex word
  std::uint32_t reserved = 0;
  std::uint64_t function = 0;  // to be called; 0: a system call
  std::int64_t number = 0;     // of the system call
  std::uint64_t arguments[6]{};
  std::int64_t result = 0;
  std::uint64_t also = offsetof(LoaderData, result);  // offset in the data where the result is stored, too
  std::int64_t patience_seconds = 3;  // without a request for so long: the injector has died, the loader ends
  std::int64_t patience_nanoseconds = 0;
  std::int64_t kept[kKept] = {-1, -1, -1, -1, -1, -1};  // descriptors that the loader closes when it ends
  std::uint64_t address = 0;  // of this data in the target, by the loader; 0 while it has not started
};
static_assert(offsetof(LoaderData, function) == 8 && offsetof(LoaderData, number) == 16);
static_assert(offsetof(LoaderData, arguments) == 24 && offsetof(LoaderData, result) == 72);
static_assert(offsetof(LoaderData, also) == 80 && offsetof(LoaderData, patience_seconds) == 88);
static_assert(offsetof(LoaderData, kept) == 104 && offsetof(LoaderData, address) == 152);

inline constexpr std::size_t kTextOffset = 256;  // in the data: strings and structures that requests point to

}  // namespace pillion::inject
