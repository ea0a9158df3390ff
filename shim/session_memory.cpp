// SPDX-License-Identifier: Apache-2.0
#include "session_memory.h"

#include <sys/mman.h>

#include <atomic>
#include <cstring>

#include "bounded_text.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

namespace pillion::shim {
namespace {

constexpr std::uint32_t kSessions = 4;

// In the library's own memory, so that nothing has to be unmapped: callbacks that are late by a session may
// still hold a pointer into it. All-zero is the sessions' first state. Whole pages, for madvise.
alignas(4096) std::uint8_t storage[(sizeof(SessionMemory) * kSessions + 4095) & ~std::size_t{4095}];
auto* const sessions = reinterpret_cast<SessionMemory*>(storage);
bool prepared;
std::uint32_t next_session;

static_assert(sizeof(pillion_counters) % sizeof(std::uint64_t) == 0);
constexpr std::uint32_t kFields = sizeof(pillion_counters) / sizeof(std::uint64_t);

void prepare_sessions() {
  if (prepared) return;
  prepared = true;
  // A child made by a raw clone runs no atfork handler; it finds zeroes, which is a closed RingSet. Before
  // Linux 4.14 only the handler protects.
  ::madvise(storage, sizeof storage, MADV_WIPEONFORK);
}

void unmap(SessionMemory* memory) {
  unmap_region(&memory->events_region);
  unmap_region(&memory->stacks_region);
  unmap_region(&memory->arena_region);
}

// A session whose memory nobody uses any more, or null.
SessionMemory* take_session() {
  prepare_sessions();
  for (std::uint32_t tried = 0; tried < kSessions; ++tried) {
    SessionMemory* one = &sessions[next_session];
    next_session = (next_session + 1) % kSessions;
    close_memory(one, 0);
    if (one->events_region.base == nullptr) return one;
  }
  return nullptr;
}

const char* map_all(const SessionFds& fds, const pillion_arm& arm, SessionMemory* memory,
                    const char** which) {
  *which = "events: ";
  const char* problem = map_region(fds.events, {PILLION_REGION_EVENTS, arm.events_bytes, arm.generation},
                                   &memory->events_region);
  if (problem != nullptr) return problem;
  *which = "stacks: ";
  problem = map_region(fds.stacks, {PILLION_REGION_STACKS, arm.stacks_bytes, arm.generation},
                       &memory->stacks_region);
  if (problem != nullptr) return problem;
  *which = "arena: ";
  return map_region(fds.arena, {PILLION_REGION_ARENA, arm.arena_bytes, arm.generation},
                    &memory->arena_region);
}

}  // namespace

SessionMemory* open_memory(const SessionFds& fds, const pillion_arm& arm, char (&problem)[128]) {
  BoundedText text(problem);
  SessionMemory* memory = take_session();
  if (memory == nullptr) {
    text.add("threads of earlier sessions are still inside their rings");
    return nullptr;
  }
  const char* which = "";
  const char* what = map_all(fds, arm, memory, &which);
  if (what != nullptr) {
    text.add(which).add(what);
    unmap(memory);
    return nullptr;
  }
  for (pillion_counters& shard : memory->counters) {
    auto* fields = reinterpret_cast<std::uint64_t*>(&shard);
    for (std::uint32_t i = 0; i < kFields; ++i) {
      std::atomic_ref<std::uint64_t>(fields[i]).store(0, std::memory_order_relaxed);
    }
  }
  memory->events.open(memory->events_region.base, memory->events_region.header);
  memory->stacks.open(memory->stacks_region.base, memory->stacks_region.header);
  return memory;
}

void publish_counters(SessionMemory* memory, std::uint64_t last_tick_ns) {
  if (memory->events_region.base == nullptr) return;
  std::uint64_t sums[kFields] = {};
  for (pillion_counters& shard : memory->counters) {
    auto* fields = reinterpret_cast<std::uint64_t*>(&shard);
    for (std::uint32_t i = 0; i < kFields; ++i) {
      sums[i] += std::atomic_ref<std::uint64_t>(fields[i]).load(std::memory_order_relaxed);
    }
  }
  sums[offsetof(pillion_counters, ring_resets) / 8] += memory->events.resets() + memory->stacks.resets();
  sums[offsetof(pillion_counters, last_tick_ns) / 8] = last_tick_ns;
  auto* shared = reinterpret_cast<std::uint64_t*>(static_cast<std::uint8_t*>(memory->events_region.base) +
                                                  memory->events_region.header.counters_offset);
  for (std::uint32_t i = 0; i < kFields; ++i) {
    std::atomic_ref<std::uint64_t>(shared[i]).store(sums[i], std::memory_order_relaxed);
  }
}

void close_memory(SessionMemory* memory, std::uint32_t wait_ms) {
  const bool events_out = memory->events.close(wait_ms);
  const bool stacks_out = memory->stacks.close(wait_ms);
  if (events_out && stacks_out) unmap(memory);
}

void close_memory_in_child() {
  for (std::uint32_t i = 0; i < kSessions; ++i) {
    sessions[i].events.close_in_child();
    sessions[i].stacks.close_in_child();
  }
}

}  // namespace pillion::shim
