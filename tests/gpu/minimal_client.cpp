// SPDX-License-Identifier: Apache-2.0
// The least that a CUPTI client can do and still see every kernel: an empty launch callback and
// CONCURRENT_KERNEL records that nobody reads. An injection library; what the shim costs is measured against
// it. Built where the GPU is, with NVIDIA's header.
#include <cupti.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>

namespace {

void CUPTIAPI on_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

void CUPTIAPI on_request(std::uint8_t** buffer, size_t* size, size_t* records) {
  *size = 1 << 20;
  *buffer = static_cast<std::uint8_t*>(aligned_alloc(8, *size));
  *records = 0;
}

void CUPTIAPI on_complete(CUcontext, std::uint32_t, std::uint8_t* buffer, size_t, size_t) { free(buffer); }

void* subscribe_later(void*) {
  usleep(1200 * 1000);  // a late attach: what came before is this process's own bare speed
  CUpti_SubscriberHandle subscriber;
  if (cuptiSubscribe(&subscriber, on_callback, nullptr) != CUPTI_SUCCESS) return nullptr;
  cuptiActivityRegisterCallbacks(on_request, on_complete);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  for (CUpti_CallbackId cbid :
       {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch})
    cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, cbid);
  for (;;) {
    usleep(100 * 1000);
    cuptiActivityFlushAll(0);
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, subscribe_later, nullptr) == 0) pthread_detach(thread);
  return 1;
}
