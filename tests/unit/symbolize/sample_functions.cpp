// SPDX-License-Identifier: Apache-2.0
#include "sample_functions.h"

static SampleFacts facts;
static volatile int sink;

[[gnu::noinline]] static void record_return() { facts.inline_return = __builtin_return_address(0); }

[[gnu::always_inline]] static inline void inner_inlined(int value) {
  sink = value;
  facts.inner_line = __LINE__ + 1;
  record_return();
  sink = value + 1;
}

[[gnu::always_inline]] static inline void middle_inlined(int value) {
  sink = value * 2;
  facts.middle_line = __LINE__ + 1;
  inner_inlined(value);
  sink = value * 3;
}

namespace sample {

struct Argument {};

[[gnu::noinline]] void outer(const Argument&, int value) {
  facts.outer_start_line = __LINE__ - 1;
  facts.outer_line = __LINE__ + 1;
  middle_inlined(value);
  sink = value * 4;
}

}  // namespace sample

extern "C" [[gnu::noinline]] int exported_c_function(int value) {
  sink = value;
  return value + 1;
}

[[gnu::noinline]] static int local_function(int value) {
  sink = value;
  return value + 2;
}

[[gnu::noinline, gnu::visibility("hidden")]] int hidden_function(int value) {
  sink = value;
  return value + 3;
}

extern "C" SampleFacts describe_sample() {
  sample::outer({}, exported_c_function(local_function(hidden_function(1))));
  facts.local_function = reinterpret_cast<const void*>(&local_function);
  facts.hidden_function = reinterpret_cast<const void*>(&hidden_function);
  return facts;
}
