// SPDX-License-Identifier: Apache-2.0
#include "commands/fake_runtime.h"

// The program on the fake: made-up profiles, so that commands and surfaces can be tried as processes.
std::unique_ptr<pillion::Runtime> pillion::make_runtime(const Options& options) {
  static FakeScript script;
  return std::make_unique<FakeRuntime>(script, options);
}
