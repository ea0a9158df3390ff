// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// The values that pass between stages, named by their state: Raw as it came from the shim (bound-checked,
// copied, otherwise believed of nothing), Unwound, Resolved. All times are CLOCK_MONOTONIC nanoseconds.
namespace pillion {

// One attached process, numbered by the sidecar from 1 and never reused. A new session with the same process
// (after detach or exec) gets a new TargetId: ids of the shim (correlations, names, maps) mean something
// within it only.
using TargetId = std::uint32_t;

// Index into the StackTable; 0 is "no stack".
using StackId = std::uint32_t;

enum class LaunchKind : std::uint8_t { kernel = 1, graph = 2, copy = 3, set = 4, host = 5 };

struct RawLaunch {
  std::uint32_t correlation = 0;
  std::uint32_t tid = 0;
  std::uint64_t time_ns = 0;
  std::uint64_t context_key = 0;
  std::uint64_t function = 0;
  std::uint32_t cbid = 0;
  LaunchKind kind = LaunchKind::kernel;
  bool has_snapshot = false;
};

struct RawLaunchFailed {
  std::uint32_t correlation = 0;
  std::uint32_t result = 0;                                    // CUresult
  [[nodiscard]] bool captured() const { return result == 0; }  // into a graph
};

enum class ExecutionKind : std::uint8_t { kernel, copy, set };

struct RawExecution {
  ExecutionKind kind = ExecutionKind::kernel;
  std::uint32_t correlation = 0;
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint64_t start_ns = 0;  // as CUPTI gave it: may be 0, after end_ns, outside the session
  std::uint64_t end_ns = 0;
  std::uint64_t bytes = 0;      // copy, set
  std::uint32_t name = 0;       // kernel: id of a RawName of the same target; 0: none
  std::uint32_t copy_kind = 0;  // copy: CUpti_ActivityMemcpyKind
  std::uint32_t graph = 0;      // 0: not from a graph
  std::uint64_t graph_node = 0;
  std::uint32_t source_device = 0;       // copy
  std::uint32_t destination_device = 0;  // copy
  std::array<std::uint32_t, 3> grid{};   // kernel
  std::array<std::uint32_t, 3> block{};  // kernel
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t dynamic_shared_bytes = 0;
  std::uint32_t registers = 0;
};

struct RawOverhead {
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint32_t kind = 0;
};

struct RawName {
  std::uint32_t id = 0;
  std::string name;  // mangled; foreign bytes: may hold anything
};

struct RawThread {
  std::uint32_t tid = 0;
  std::uint64_t stack_low = 0;
  std::uint64_t stack_high = 0;
  std::string comm;
};

struct RawDevice {
  std::uint32_t device = 0;
  std::uint16_t compute_major = 0;
  std::uint16_t compute_minor = 0;
  std::array<std::uint8_t, 16> uuid{};
  std::uint32_t multiprocessors = 0;
  bool mig = false;
  std::string name;
};

// Registers in the order of enum pillion_snapshot_register.
struct RawSnapshot {
  std::uint32_t correlation = 0;
  std::uint32_t tid = 0;
  std::uint64_t time_ns = 0;
  std::uint64_t context_key = 0;
  std::uint32_t maps_generation = 0;
  bool truncated = false;
  bool foreign = false;
  bool faulted = false;
  std::array<std::uint64_t, 8> registers{};
  std::uint64_t stack_start = 0;
  std::vector<std::byte> stack;
};

// Receives what a drain found, in ring order (across rings there is none). Called on the draining thread.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual void on_launch(const RawLaunch& launch) = 0;
  virtual void on_launch_failed(const RawLaunchFailed& failed) = 0;
  virtual void on_execution(const RawExecution& execution) = 0;
  virtual void on_overhead(const RawOverhead& overhead) = 0;
  virtual void on_name(RawName name) = 0;
  virtual void on_thread(RawThread thread) = 0;
  virtual void on_device(RawDevice device) = 0;
  virtual void on_snapshot(RawSnapshot snapshot) = 0;
};

// How a stack ended. rooted: main, _start, clone or start_thread was reached.
enum class StackEnding : std::uint8_t {
  rooted,
  fiber,
  no_cfi,
  truncated_snapshot,
  bad_cfa,
  loop,
  no_mapping,
  faulted
};

// One mapped file of one target, as the unwinder saw it. `file` numbers ELF files within the sidecar, from 1;
// 0: not a file (anonymous or JIT code).
struct UnwoundFrame {
  std::uint32_t file = 0;
  std::uint64_t address =
      0;                  // in the file's own address space (ELF virtual address); absolute when file is 0
  bool is_return = true;  // a return address: look up address - 1
  bool operator==(const UnwoundFrame&) const = default;
};

struct UnwoundStack {
  std::vector<UnwoundFrame> frames;  // leaf first
  StackEnding ending = StackEnding::rooted;
};

}  // namespace pillion
