// SPDX-License-Identifier: Apache-2.0
#include "commands/commands.h"

int main(int argc, char** argv) {
  return pillion::commands::run({argv + 1, argv + argc}, pillion::make_runtime);
}
