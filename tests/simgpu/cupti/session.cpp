// SPDX-License-Identifier: Apache-2.0
#include "cupti/session.h"

#include <atomic>
#include <csignal>
#include <cstring>
#include <mutex>

#include "common/knobs.h"
#include "cupti/callbacks.h"
#include "cupti/clock.h"
#include "cupti/detach_rules.h"
#include "cupti/driver.h"
#include "cupti/record_layout.h"
#include "cupti/records.h"

namespace simgpu {

using namespace pillion::cupti;

namespace {

const auto g_first_correlation = static_cast<std::uint32_t>(knob("SIMGPU_CORRELATION_START", 1));
const auto g_correlation_step = static_cast<std::uint32_t>(knob("SIMGPU_CORRELATION_STEP", 1));
std::atomic<std::uint32_t> g_next_correlation{g_first_correlation};
std::atomic<std::uint64_t> g_kinds{0};  // bit per CUpti_ActivityKind
std::atomic<bool> g_crash_at_launch{false};
std::mutex g_kinds_mutex;

constexpr std::uint32_t kGraphExecDestroyStarting = 19;  // RESOURCE

bool recording(std::uint32_t kind) { return (g_kinds.load(std::memory_order_relaxed) >> kind & 1) != 0; }

bool is_kernel_launch(const simgpu_call& call) { return call.symbol != nullptr; }
bool is_graph_launch(const simgpu_call& call) { return call.cbid == 514 || call.cbid == 515; }

// The first parameter of a graph launch.
const void* exec_of(const simgpu_call& call) {
  const void* exec = nullptr;
  std::memcpy(&exec, call.parameters, sizeof exec);
  return exec;
}

// 0 is never an id: it is what records without a launch carry.
std::uint32_t next_correlation() {
  std::uint32_t id = g_next_correlation.fetch_add(g_correlation_step, std::memory_order_relaxed);
  if (id == 0) id = g_next_correlation.fetch_add(g_correlation_step, std::memory_order_relaxed);
  return id;
}

void on_enter(simgpu_call* call) {
  const bool seen = callback_enabled(kDomainDriverApi, call->cbid);
  if (seen || g_kinds.load(std::memory_order_relaxed) != 0) call->correlation = next_correlation();
  if (is_graph_launch(*call)) note_graph_launch(exec_of(*call), recording(kActivityConcurrentKernel));
  if (g_crash_at_launch.load(std::memory_order_relaxed) &&
      (is_graph_launch(*call) || is_kernel_launch(*call))) {
    std::raise(SIGSEGV);
  }
  if (seen) dispatch_enter(call);
  if (is_kernel_launch(*call) && callback_enabled(kDomainResource, kResourceModuleProfiled)) {
    dispatch_module_profiled(*call);
  }
}

void on_exit(simgpu_call* call) {
  if (call->entered != 0 && callback_enabled(kDomainDriverApi, call->cbid)) dispatch_exit(call);
}

void on_op(const simgpu_call* call, const simgpu_op* op) {
  switch (op->kind) {
    case SIMGPU_KERNEL:
      if (recording(kActivityConcurrentKernel)) write_op(*op, kActivityConcurrentKernel, call->correlation);
      if (recording(kActivityKernel)) write_op(*op, kActivityKernel, call->correlation);
      break;
    case SIMGPU_COPY:
      if (recording(kActivityMemcpy)) write_op(*op, kActivityMemcpy, call->correlation);
      break;
    case SIMGPU_PEER_COPY:
      if (recording(kActivityMemcpy2)) write_op(*op, kActivityMemcpy2, call->correlation);
      break;
    case SIMGPU_SET:
      if (recording(kActivityMemset)) write_op(*op, kActivityMemset, call->correlation);
      break;
    case SIMGPU_SYNC:
      if (recording(kActivitySynchronization)) write_synchronization(*op, call->correlation);
      break;
    default:
      break;
  }
}

void on_resource(std::uint32_t cbid, CUcontext context, CUstream stream, const void* descriptor) {
  if (cbid == kGraphExecDestroyStarting)
    forget_graph(static_cast<const simgpu_graph_event*>(descriptor)->exec);
  dispatch_resource(cbid, context, stream, descriptor);
  std::uint32_t id = 0, device = 0, null_stream = 0;
  if (cbid == kResourceContextCreated && recording(kActivityContext) &&
      driver()->context_info(context, &id, &device, &null_stream) != 0) {
    write_context(id, device, null_stream);
  }
  if (cbid == kResourceStreamCreated && recording(kActivityStream) &&
      driver()->context_info(context, &id, &device, &null_stream) != 0) {
    std::uint32_t stream_id = 0;
    if (driver()->stream_id(context, stream, &stream_id) != 0) write_stream(id, stream_id, 0, 0);
  }
}

const simgpu_hooks g_session_hooks{on_enter, on_exit, on_op, on_resource};

// The toolkit that a library version belongs to, as cuDriverGetVersion counts.
int toolkit_of(std::uint32_t version) {
  if (version >= 130000) return static_cast<int>(version / 10000 * 1000 + version / 100 % 100 * 10);
  if (version >= 28) return 12090;
  if (version >= 26) return 12080;
  return version >= 19 ? 12000 : 11080;
}

}  // namespace

Result begin_session() {
  const Driver* cuda = driver();
  if (cuda == nullptr) return kErrorNotInitialized;
  if (cupti_version() <= 17 && cuda->driver_version() >= 13000) std::raise(SIGSEGV);
  // Minor versions of one major fit each other.
  if (toolkit_of(cupti_version()) / 1000 > cuda->driver_version() / 1000) return kErrorNotInitialized;
  cuda->set_hooks(&g_session_hooks);
  return kSuccess;
}

void end_session() {
  const std::lock_guard lock(g_kinds_mutex);
  if (driver() != nullptr) driver()->set_hooks(nullptr);
  g_kinds.store(0, std::memory_order_relaxed);
  g_next_correlation.store(g_first_correlation, std::memory_order_relaxed);
  forget_graphs();
}

Result enable_kind(std::uint32_t kind) {
  if (!kind_exists(kind)) return kErrorNotCompatible;
  const std::lock_guard lock(g_kinds_mutex);
  if (kind == kActivityKernel && recording(kActivityConcurrentKernel)) return kErrorNotCompatible;
  if (kind == kActivityConcurrentKernel && recording(kActivityKernel)) return kErrorNotCompatible;
  measure_clock_offset();
  if (kind == kActivityGraphTrace && driver()->graph_execs_ever() > 0 &&
      knob("SIMGPU_GRAPH_TRACE_CRASH", 1) != 0) {
    g_crash_at_launch.store(true, std::memory_order_relaxed);
  }
  const std::uint64_t before = driver()->now_ns();
  g_kinds.fetch_or(std::uint64_t{1} << kind, std::memory_order_relaxed);
  // OVERHEAD_CUPTI_INSTRUMENTATION: the enabling itself.
  if (kind == kActivityOverhead) write_overhead(2u << 16, before, driver()->now_ns());
  return kSuccess;
}

Result disable_kind(std::uint32_t kind) {
  if (!kind_exists(kind)) return kErrorNotCompatible;
  const std::lock_guard lock(g_kinds_mutex);
  g_kinds.fetch_and(~(std::uint64_t{1} << kind), std::memory_order_relaxed);
  return kSuccess;
}

Result dump_kind(std::uint32_t kind) {
  if (kind != kActivityDevice && kind != kActivityContext && kind != kActivityStream)
    return kErrorNotCompatible;
  const Result enabled = enable_kind(kind);
  if (enabled != kSuccess) return enabled;
  if (kind == kActivityDevice) {
    for (std::uint32_t device = 0; device < driver()->device_count(); ++device) write_device(device);
  } else if (kind == kActivityContext) {
    driver()->each_context(
        [](void*, CUcontext context, std::uint32_t id, std::uint32_t device) {
          std::uint32_t null_stream = 0;
          driver()->context_info(context, nullptr, nullptr, &null_stream);
          write_context(id, device, null_stream);
        },
        nullptr);
  } else {
    driver()->each_stream([](void*, std::uint32_t context, std::uint32_t stream,
                             int priority) { write_stream(context, stream, priority, 0); },
                          nullptr);
  }
  return kSuccess;
}

}  // namespace simgpu
