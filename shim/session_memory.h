// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "abi/pillion_abi.h"
#include "region.h"
#include "ring_writer.h"

namespace pillion::shim {

// What one session writes to. Several exist because a thread that was preempted inside a ring cannot be
// waited for: its session's memory stays mapped until it has come out, and the next session takes another
// one.
struct SessionMemory {
  RingSet events;
  RingSet stacks;
  pillion_counters counters[kCounterShards];
  Region events_region;
  Region stacks_region;
  Region arena_region;
};

// The descriptors are the caller's and stay open.
struct SessionFds {
  int events;
  int stacks;
  int arena;
};

// All control thread only, except close_memory_in_child().

// Maps the three memfds of an ARM and opens the rings. Null and `problem` ("events: seals ...") on refusal.
[[nodiscard]] SessionMemory* open_memory(const SessionFds& fds, const pillion_arm& arm, char (&problem)[128]);

// Adds the private counters up into the shared ones. `last_tick_ns` comes from the capture thread.
void publish_counters(SessionMemory* memory, std::uint64_t last_tick_ns);

// Lets no producer in any more and unmaps as soon as the last one is out: now, or when memory is next wanted.
void close_memory(SessionMemory* memory, std::uint32_t wait_ms);

// In a forked child, which has none of the mappings.
void close_memory_in_child();

}  // namespace pillion::shim
