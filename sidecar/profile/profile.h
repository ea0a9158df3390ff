// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/capture_settings.h"
#include "base/idle_data.h"
#include "base/latency_histogram.h"

// The one model of a profile. build() makes it, exporters read it and nothing else. Plain values, one owner.
// Text is interned: a TextId indexes Profile::texts, 0 is "". Every text is valid UTF-8, without NUL,
// bounded. Ids of functions, locations and mappings are indices + 1, as pprof wants them; 0 is none.
namespace pillion::profile {

using TextId = std::uint32_t;

// Order of Sample::values in a GPU profile.
enum ValueIndex : std::size_t {
  kGpuTimeNs = 0,
  kLaunches = 1,
  kQueueTimeNs = 2,
  kCopiedBytes = 3,
  kLaunchTimeNs = 4,
  kValues = 5
};

// The same in a profile of synchronisation calls.
enum SyncValueIndex : std::size_t { kSyncTimeNs = 0, kSyncCalls = 1, kSyncValues = 2 };

// What one of a sample's values is: in pprof a type and its unit, in JSON a key.
struct ValueType {
  const char* type;
  const char* unit;
  const char* key;
};
inline constexpr std::array<ValueType, kValues> kGpuValueTypes{
    {{"gpu_time", "nanoseconds", "gpu_time_ns"},
     {"launches", "count", "launches"},
     {"queue_time", "nanoseconds", "queue_time_ns"},
     {"copied", "bytes", "copied_bytes"},
     {"launch_time", "nanoseconds", "launch_time_ns"}}};
inline constexpr std::array<ValueType, kSyncValues> kSyncValueTypes{
    {{"sync_time", "nanoseconds", "sync_time_ns"}, {"sync_calls", "count", "sync_calls"}}};

struct Mapping {
  std::uint64_t start = 0;
  std::uint64_t limit = 0;
  std::uint64_t offset = 0;
  TextId file = 0;
  TextId build_id = 0;  // lowercase hex
};

struct Function {
  TextId name = 0;         // demangled
  TextId system_name = 0;  // as the symbol table has it
  TextId file = 0;
};

struct Line {
  std::uint32_t function = 0;  // id
  std::uint32_t line = 0;      // 0: unknown
};

struct Location {
  std::uint32_t mapping = 0;  // id, 0: pseudo frames and code without a file
  std::uint64_t address = 0;
  std::vector<Line> lines;  // innermost inlined function first
  bool python = false;      // a Python frame: one line, no mapping, no address
};

// Text when unit is 0, else a number.
struct Label {
  TextId key = 0;
  TextId text = 0;
  std::int64_t number = 0;
  TextId unit = 0;
};

struct Sample {
  std::vector<std::uint32_t> locations;  // ids, leaf first
  std::vector<Label> labels;
  std::array<std::int64_t, kValues> values{};
};

// Where a process runs in a cluster; what is empty is not known.
struct PodIdentity {
  std::string pod, name_space, node, container;
};

struct Process {
  std::uint32_t pid = 0;  // as the sidecar sees it
  std::string comm;
  std::string exe;
  std::vector<std::uint32_t> targets;
  PodIdentity pod;
};

struct Device {
  std::uint32_t pid = 0;     // whose number `device` is
  std::uint32_t device = 0;  // the process's own number
  std::string uuid;          // GPU-xxxxxxxx-... or MIG-...
  std::string name;
  std::uint32_t compute_major = 0;
  std::uint32_t compute_minor = 0;
  std::uint32_t multiprocessors = 0;
  bool mig = false;
};

// One device over the window of an idle profile: busy_ns + idle_ns == window_ns. Busy is what kernels and
// memsets of all recorded processes were together; a copy does not keep a device from being idle.
struct DeviceIdle {
  struct User {
    std::uint32_t pid = 0;
    std::uint32_t device = 0;  // the process's own number
    bool operator==(const User&) const = default;
  };
  std::vector<User> users;
  std::string uuid;  // empty: not known
  std::uint64_t window_ns = 0;
  std::uint64_t busy_ns = 0;
  std::uint64_t idle_ns = 0;
  double busy_share = 0;          // of the window
  double kernel_concurrency = 0;  // kernels that ran at a time, on average over the time in which one did
  std::array<std::uint64_t, kIdleCauses> by_cause{};  // of idle_ns, by IdleCause
};

// What ran on the GPU, by leaf; most GPU time first. Exact even where stacks were merged, except for
// executions that the join itself had to merge (quality "cells_merged").
struct Kernel {
  TextId name = 0;
  TextId system_name = 0;
  std::array<std::int64_t, kValues> values{};
};

// How long a kernel's (copy's, set's) executions on one stream queued, and how long their launch calls took.
struct Latency {
  std::uint32_t pid = 0;
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  TextId name = 0;
  TextId system_name = 0;
  bool merged = false;  // all that had no row of their own: device, context and stream mean nothing
  LatencyHistogram queue;
  LatencyHistogram call;
};

// With what one session's shim was armed.
struct Settings {
  std::uint32_t pid = 0;
  std::uint32_t target = 0;
  CaptureSettings in_force;
};

struct QualityEntry {
  std::string name;
  std::variant<std::uint64_t, double, std::string> value;
};

struct Anomaly {
  std::string kind;  // of a bounded set
  std::uint64_t total = 0;
  std::string meaning;  // in plain words, the same for each of its kind
  std::string detail;   // this one's own, may be empty
};

struct Profile {
  const char* type = "gpu";        // of what; as in the request. Of static storage
  std::int64_t start_wall_ns = 0;  // CLOCK_REALTIME of t0
  std::uint64_t t0_ns = 0;         // CLOCK_MONOTONIC
  std::uint64_t t1_ns = 0;
  // So many of each sample's and kernel's values count, in this order; the first is the one that the profile
  // is about. Of static storage.
  std::span<const ValueType> value_types = kGpuValueTypes;
  std::vector<Process> processes;
  std::vector<Device> devices;
  std::vector<DeviceIdle> device_idle;  // idle profiles only
  std::vector<std::string> texts{""};
  std::vector<Mapping> mappings;  // the main program first
  std::vector<Function> functions;
  std::vector<Location> locations;
  std::vector<Sample> samples;
  std::vector<Kernel> kernels;
  std::vector<Latency> latencies;  // most queue time first
  std::vector<Settings> settings;
  std::vector<QualityEntry> quality;
  std::vector<Anomaly> anomalies;

  [[nodiscard]] const std::string& text(TextId id) const { return texts[id < texts.size() ? id : 0]; }
};

}  // namespace pillion::profile
