// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>

#include "cuda/call.h"
#include "cuda/clock.h"
#include "cuda/stream.h"
#include "cuda_driver.h"

struct CUevent_st {
  std::atomic<std::uint64_t> done_ns{0};  // 0: never recorded
};

namespace {

using simgpu::traced;

// Waits through `wait` and tells it as a synchronisation of the given CUpti_ActivitySynchronizationType.
template <class Wait>
void timed_wait(const simgpu_call& call, std::uint32_t type, std::uint32_t stream, Wait wait) {
  simgpu_op op{};
  op.kind = SIMGPU_SYNC;
  op.sync_type = type;
  op.context = call.context_id;
  op.stream = stream;
  op.queued_ns = op.start_ns = simgpu::now_ns();
  wait();
  op.end_ns = simgpu::now_ns();
  simgpu::note_wait(call.name, op.start_ns, op.end_ns);
  simgpu::tell_op(call, op);
}

template <std::uint32_t Cbid>
CUresult synchronize_stream(const char* name, CUstream stream) {
  const struct { CUstream stream; } parameters{stream};
  return traced({Cbid, name}, parameters, [&](simgpu_call& call) -> CUresult {
    CUstream resolved = simgpu::resolve(stream);
    timed_wait(call, 3, resolved->id, [&] { simgpu::wait_stream(resolved); });  // STREAM_SYNCHRONIZE
    return CUDA_SUCCESS;
  });
}

template <std::uint32_t Cbid, class Parameters>
CUresult create(const char* name, const Parameters& parameters, CUstream* stream, int priority) {
  return traced({Cbid, name}, parameters, [&](simgpu_call& call) -> CUresult {
    if (stream == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *stream = simgpu::create_stream(call.context, priority);
    return CUDA_SUCCESS;
  });
}

struct EventParameters {
  CUevent event;
};

}  // namespace

extern "C" {

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  const struct {
    CUstream* stream;
    unsigned int flags;
  } parameters{stream, flags};
  return create<124>("cuStreamCreate", parameters, stream, 0);
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int priority) {
  const struct {
    CUstream* stream;
    unsigned int flags;
    int priority;
  } parameters{stream, flags, priority};
  return create<367>("cuStreamCreateWithPriority", parameters, stream, priority);
}

struct StreamParameters {
  CUstream stream;
};

CUresult cuStreamDestroy_v2(CUstream stream) {
  return traced({326, "cuStreamDestroy_v2"}, StreamParameters{stream}, [&](simgpu_call&) -> CUresult {
    if (stream == nullptr || stream->destroyed) return CUDA_ERROR_INVALID_HANDLE;
    simgpu::destroy_stream(stream);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamSynchronize(CUstream stream) {
  return synchronize_stream<126>("cuStreamSynchronize", stream);
}

CUresult cuStreamSynchronize_ptsz(CUstream stream) {
  return synchronize_stream<440>("cuStreamSynchronize_ptsz", stream);
}

CUresult cuStreamQuery(CUstream stream) {
  return traced({125, "cuStreamQuery"}, StreamParameters{stream}, [&](simgpu_call&) -> CUresult {
    return simgpu::stream_end_ns(simgpu::resolve(stream)) <= simgpu::now_ns() ? CUDA_SUCCESS
                                                                              : CUDA_ERROR_NOT_READY;
  });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  const struct {
    CUstream stream;
    CUevent event;
    unsigned int flags;
  } parameters{stream, event, flags};
  return traced({295, "cuStreamWaitEvent"}, parameters, [&](simgpu_call&) -> CUresult {
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    CUstream resolved = simgpu::resolve(stream);
    const std::lock_guard lock(resolved->mutex);
    resolved->last_end_ns = std::max(resolved->last_end_ns, event->done_ns.load());
    return CUDA_SUCCESS;
  });
}

CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  const struct {
    CUevent* event;
    unsigned int flags;
  } parameters{event, flags};
  return traced({118, "cuEventCreate"}, parameters, [&](simgpu_call&) -> CUresult {
    *event = new CUevent_st;
    return CUDA_SUCCESS;
  });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  const struct {
    CUevent event;
    CUstream stream;
  } parameters{event, stream};
  return traced({119, "cuEventRecord"}, parameters, [&](simgpu_call&) -> CUresult {
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    event->done_ns = std::max(simgpu::stream_end_ns(simgpu::resolve(stream)), simgpu::now_ns());
    return CUDA_SUCCESS;
  });
}

CUresult cuEventQuery(CUevent event) {
  return traced({120, "cuEventQuery"}, EventParameters{event}, [&](simgpu_call&) -> CUresult {
    return event->done_ns <= simgpu::now_ns() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult cuEventSynchronize(CUevent event) {
  return traced({121, "cuEventSynchronize"}, EventParameters{event}, [&](simgpu_call& call) -> CUresult {
    timed_wait(call, 1, 0, [&] { simgpu::sleep_until(event->done_ns); });  // EVENT_SYNCHRONIZE
    return CUDA_SUCCESS;
  });
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  const struct {
    float* milliseconds;
    CUevent start, end;
  } parameters{milliseconds, start, end};
  return traced({123, "cuEventElapsedTime"}, parameters, [&](simgpu_call&) -> CUresult {
    if (start->done_ns == 0 || end->done_ns == 0) return CUDA_ERROR_INVALID_HANDLE;
    if (end->done_ns > simgpu::now_ns()) return CUDA_ERROR_NOT_READY;
    const auto ns = static_cast<std::int64_t>(end->done_ns - start->done_ns);
    *milliseconds = static_cast<float>(static_cast<double>(ns) * 1e-6);
    return CUDA_SUCCESS;
  });
}

CUresult cuEventDestroy_v2(CUevent event) {
  return traced({325, "cuEventDestroy_v2"}, EventParameters{event}, [&](simgpu_call&) -> CUresult {
    delete event;
    return CUDA_SUCCESS;
  });
}
}
