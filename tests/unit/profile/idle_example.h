// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "example.h"
#include "profile/idle_builder.h"

namespace pillion::profile {

inline IdleSample idle_sample(StackId stack, IdleCause cause, std::uint64_t ns,
                              IdleEdge edge = IdleEdge::none) {
  IdleSample sample;
  sample.session = 1;
  sample.launch = joined_sample(0, 0, stack);
  sample.launch.queue_ns = 0;
  sample.cause = cause;
  sample.edge = edge;
  sample.gaps = 2;
  sample.ns = ns;
  return sample;
}

// The example's process on a device that was idle for each cause, over a window of 20 s.
struct IdleExample : Example {
  IdleData idle;

  IdleExample() {
    input.targets.at(0).session = 1;
    const StackId line =
        stacks.intern(stack_below_capture({{5, 0x50}, UnwoundFrame::python(1, 120), {1, 0x200}}));
    idle.samples = {idle_sample(line, IdleCause::host_bound, 9'000),
                    idle_sample(line, IdleCause::queued, 400),
                    idle_sample(line, IdleCause::synchronising, 300),
                    idle_sample(line, IdleCause::copy, 70),
                    idle_sample(line, IdleCause::host_bound, 5, IdleEdge::begin),
                    idle_sample(0, IdleCause::unknown, 11, IdleEdge::end)};
    idle.samples[5].ended = false;
    DeviceUse use;
    use.members = {{1, 0}};
    use.window_ns = 20'000;
    use.busy_ns = 20'000 - 9'786;
    use.kernel_ns = 15'000;
    use.kernel_busy_ns = 10'000;
    use.idle_ns = {9'005, 400, 300, 70, 11};
    idle.devices = {use};
    idle.counters.executions_late = 3;
  }
  [[nodiscard]] Profile make_idle() { return build_idle(input, idle, resolver); }
};

}  // namespace pillion::profile
