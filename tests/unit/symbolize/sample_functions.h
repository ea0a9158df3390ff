// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the sample library says about itself; the test compares the symbolizer's answers with it.
struct SampleFacts {
  const void* inline_return;  // return address in inner_inlined, in middle_inlined, in sample::outer
  int inner_line;             // of the call in inner_inlined
  int middle_line;            // of the call to inner_inlined
  int outer_line;             // of the call to middle_inlined
  int outer_start_line;
  const void* local_function;  // first byte of a function with local linkage
  const void* hidden_function;
};

using DescribeSample = SampleFacts (*)();
