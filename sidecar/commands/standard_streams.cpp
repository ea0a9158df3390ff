// SPDX-License-Identifier: Apache-2.0
#include "commands/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

namespace pillion::commands {

void hold_standard_streams() {
  // Opened against their direction, so that using them is an error that is seen.
  constexpr std::array<int, 3> kModes{O_WRONLY, O_RDONLY, O_WRONLY};
  for (int number = 0; number < 3; ++number) {
    if (::fcntl(number, F_GETFD) >= 0) continue;
    // The lowest free number is this one.
    (void)::open("/dev/null", kModes.at(static_cast<std::size_t>(number)) | O_CLOEXEC);
  }
}

}  // namespace pillion::commands
