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
  bool returns = false;  // a RawReturned or a RawLaunchFailed follows when the call returns
};

struct RawLaunchFailed {
  std::uint32_t correlation = 0;
  std::uint32_t result = 0;                                    // CUresult
  [[nodiscard]] bool captured() const { return result == 0; }  // into a graph
};

// A launch or a synchronisation call has returned.
struct RawReturned {
  std::uint32_t correlation = 0;
  bool sync = false;  // of a RawSync; else of a RawLaunch
  std::uint64_t time_ns = 0;
};

// A thread begins to wait for the GPU.
struct RawSync {
  std::uint32_t correlation = 0;  // of the same sequence as those of launches
  std::uint32_t tid = 0;
  std::uint64_t time_ns = 0;
  std::uint64_t context_key = 0;
  std::uint32_t cbid = 0;
  std::uint32_t context = 0;  // CUPTI's id; 0: not known
  bool has_snapshot = false;
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

// A CUDA context that the process has, or had since it was armed.
struct RawContext {
  std::uint32_t context = 0;  // CUPTI's id
  std::uint32_t device = 0;
};

// A Python code object. The shim may send the same one again, under the same id or another.
struct RawPythonCode {
  std::uint32_t id = 0;
  std::uint16_t version = 0;     // 0x030b: 3.11; decides how the line table is encoded
  std::uint32_t first_line = 0;  // co_firstlineno
  bool name_cut = false;         // a name was longer than the shim sends
  bool name_lost = false;        // a name could not be read, and is empty
  bool lines_cut = false;        // there is no line table: only the first line is known
  std::string qualname;          // foreign bytes, as all text here
  std::string filename;
  std::vector<std::byte> line_table;
};

// As struct pillion_python_frame.
struct RawPythonFrame {
  std::uint32_t code = 0;   // id of a RawPythonCode of the same target, which may come later; 0: none
  std::int32_t offset = 0;  // bytes into the bytecode; negative: not begun
  std::uint64_t entry = 0;  // see the wire
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
  std::vector<RawPythonFrame> python;  // leaf first
  bool python_cut = false;             // deeper than the shim sends
  bool python_partial = false;         // the shim could not follow them to the end
};

// Receives what a drain found, in ring order (across rings there is none). Called on the draining thread.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual void on_launch(const RawLaunch& launch) = 0;
  virtual void on_launch_failed(const RawLaunchFailed& failed) = 0;
  virtual void on_returned(const RawReturned& returned) = 0;
  virtual void on_sync(const RawSync& sync) = 0;
  virtual void on_execution(const RawExecution& execution) = 0;
  virtual void on_overhead(const RawOverhead& overhead) = 0;
  virtual void on_name(RawName name) = 0;
  virtual void on_thread(RawThread thread) = 0;
  virtual void on_device(RawDevice device) = 0;
  virtual void on_context(const RawContext& context) = 0;
  virtual void on_python_code(RawPythonCode code) = 0;
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

enum class FrameKind : std::uint8_t {
  native,
  python,
  // Marks, which stand for no frame. What is on their root side, to the next native frame:
  python_unplaced,  // Python frames whose place among the native ones is not known
  python_cut        // Python frames that the snapshot does not have
};

// One frame. `file` numbers ELF files within the sidecar, from 1; 0: not a file (anonymous or JIT code). Of a
// Python frame `file` is the target's number of the code object and `address` the offset of the instruction
// in it.
struct UnwoundFrame {
  std::uint32_t file = 0;
  std::uint64_t address =
      0;                  // in the file's own address space (ELF virtual address); absolute when file is 0
  bool is_return = true;  // a return address: look up address - 1
  FrameKind kind = FrameKind::native;
  bool operator==(const UnwoundFrame&) const = default;

  [[nodiscard]] static UnwoundFrame python(std::uint32_t code, std::int32_t offset) {
    return {code, static_cast<std::uint64_t>(std::int64_t{offset}), false, FrameKind::python};
  }
  [[nodiscard]] static UnwoundFrame mark(FrameKind kind) { return {0, 0, false, kind}; }
  [[nodiscard]] std::int32_t python_offset() const { return static_cast<std::int32_t>(address); }
};

struct UnwoundStack {
  std::vector<UnwoundFrame> frames;  // leaf first
  StackEnding ending = StackEnding::rooted;
};

}  // namespace pillion
