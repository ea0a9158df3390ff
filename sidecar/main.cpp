// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "commands/commands.h"
#include "commands/standard_streams.h"

int main(int argc, char** argv) {
  pillion::commands::hold_standard_streams();
  const int code = pillion::commands::run({argv + 1, argv + argc}, pillion::make_runtime);
  // An answer that did not arrive was not given.
  if (std::fflush(stdout) == 0) return code;
  std::fprintf(stderr, "pillion: write stdout: %s\n", std::strerror(errno));
  return code != pillion::commands::kDone ? code : pillion::commands::kInternal;
}
