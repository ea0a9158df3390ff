// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/pillion_abi.h"

// What the capture side (CUPTI, launches, activity, snapshots, modules) offers to the control side (socket,
// state, leases). Everything here is called on the capture thread alone, a thread that the control side
// starts when ARM comes and joins after capture_disarm(): so a CUPTI call that never returns cannot stop the
// control thread from answering, and only the control side owns the state.
namespace pillion::shim {

class RingSet;  // ring_writer.h

struct CaptureRequest {
  std::uint64_t generation;
  std::uint32_t kinds;  // enum pillion_kinds
  std::uint32_t sample_permyriad;
  std::uint32_t sample_mib_per_s;
  std::uint32_t stack_bytes_max;
  RingSet* events;  // mapped, outlive the session
  RingSet* stacks;
  pillion_region_header* arena;  // mapped and checked; arena_bytes long
  std::uint64_t arena_bytes;
  pillion_counters* counters;  // kCounterShards of them, private: add with count() of ring_writer.h
};

// Fills either `armed` (returns true) or `refused`. Takes as long as CUPTI takes.
[[nodiscard]] bool capture_arm(const CaptureRequest& request, pillion_armed* armed, pillion_refused* refused);

// Every 100 ms while armed: flush what is complete, adapt the sampler, retry unsent names. Returns false when
// CUPTI is lost to us (fatal, clobbered); `reason` then holds enum pillion_disarm_reason, and `text` may hold
// what happened, for people, as a literal.
[[nodiscard]] bool capture_tick(std::uint32_t* reason, const char** text);

// While armed: a library came or went. Looks for a Python interpreter where there was none.
void capture_libraries_changed();

// Returns a CUptiResult.
[[nodiscard]] std::uint32_t capture_flush(bool forced);

// Ends recording and returns enum pillion_residue. After it no callback of ours touches the rings: the
// control side may unmap once RingSet::close() has returned. `may_wait_ms` bounds the wait for an API call to
// finalize in.
[[nodiscard]] std::uint32_t capture_disarm(bool finalize, std::uint32_t may_wait_ms);

// Callable asleep and armed, on the control thread: no CUPTI call, nothing that blocks on the GPU.
[[nodiscard]] bool capture_context_exists();
[[nodiscard]] std::uint32_t capture_driver_version();
[[nodiscard]] std::uint32_t capture_cupti_version();  // 0 while no library is loaded
[[nodiscard]] const char* capture_cupti_path();       // "" while no library is loaded
// Whether frames of Python are in force, with how often that has changed: 0 while nobody has looked. Leaves
// `out->header` and `out->generation` alone.
[[nodiscard]] std::uint32_t capture_python(pillion_python* out);

// Whoever starts the shim inside cuInit: CUDA is not called before that has returned.
void capture_cuda_is_starting();

// PILLION_EAGER=1, once, by whoever starts the shim: keeps modules from the first context on.
void capture_start_eager();

// In a forked child: forget everything, touch no CUPTI, never record again.
void capture_after_fork_in_child();

}  // namespace pillion::shim
