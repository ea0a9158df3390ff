// SPDX-License-Identifier: Apache-2.0
#include "stamp_clock.h"

#include <fcntl.h>
#include <unistd.h>

namespace pillion::shim {

constinit BasicStampClock<ProcessorClock> g_stamp_clock{};

bool processor_clock_is_steady() {
  if (!arch::ticks_are_steady()) return false;
  // The kernel leaves the counter when it finds that it is not sound (Documentation/timers/timekeeping).
  const int fd =
      ::open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[8] = {};
  const ssize_t got = ::read(fd, text, sizeof(text));
  ::close(fd);
  return got == 4 && __builtin_memcmp(text, "tsc\n", 4) == 0;
}

}  // namespace pillion::shim
