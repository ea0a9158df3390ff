// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace pillion::shim {

// A descriptor of ours in a process that is not ours: programs close every descriptor they did not open
// (daemons, closefrom) and get the same number for a file of theirs. So each use asks first whether the
// number still leads to what we opened. Owned by one thread; trivially destructible on purpose, a forked
// child must not close by accident.
struct OwnedFd {
  int number = -1;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;

  // Takes `fd`, moves it to 200 or above where the limit allows (programs count on low numbers),
  // close-on-exec.
  [[nodiscard]] static OwnedFd adopt(int fd);

  [[nodiscard]] bool valid() const { return number >= 0; }
  [[nodiscard]] bool still_ours() const;
  // Closes it if it is still ours. Callable in a forked child.
  void close();
};

}  // namespace pillion::shim
