// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "cupti/buffers.h"
#include "cupti/call_log.h"
#include "cupti/callbacks.h"
#include "cupti/detach_rules.h"
#include "cupti/driver.h"
#include "cupti/record_layout.h"
#include "cupti/session.h"

using namespace pillion::cupti;
using simgpu::api;

namespace {

struct ResultText {
  Result result;
  const char* text;
};
constexpr ResultText kResults[] = {
    {kSuccess, "CUPTI_SUCCESS"},
    {kErrorInvalidParameter, "CUPTI_ERROR_INVALID_PARAMETER"},
    {kErrorInvalidOperation, "CUPTI_ERROR_INVALID_OPERATION"},
    {kErrorOutOfMemory, "CUPTI_ERROR_OUT_OF_MEMORY"},
    {kErrorMaxLimitReached, "CUPTI_ERROR_MAX_LIMIT_REACHED"},
    {kErrorNotCompatible, "CUPTI_ERROR_NOT_COMPATIBLE"},
    {kErrorNotInitialized, "CUPTI_ERROR_NOT_INITIALIZED"},
    {kErrorInvalidKind, "CUPTI_ERROR_INVALID_KIND"},
    {kErrorNotSupported, "CUPTI_ERROR_NOT_SUPPORTED"},
    {kErrorInsufficientPrivileges, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"},
    {kErrorMultipleSubscribers, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"},
    {kErrorUnknown, "CUPTI_ERROR_UNKNOWN"},
};

void die_where_the_real_one_does() {
  const char* reason = simgpu::why_finalize_kills();
  if (reason == nullptr) return;
  std::fprintf(stderr, "simgpu: cuptiFinalize kills the program: %s\n", reason);
  if (simgpu::knob_text("SIMGPU_DETACH") != "forgiving") std::abort();
}

Result not_supported(const char* function) {
  simgpu::log_call(function, kErrorNotSupported);
  return kErrorNotSupported;
}

}  // namespace

extern "C" {

Result cuptiGetVersion(std::uint32_t* version) {
  return api("cuptiGetVersion", [&]() -> Result {
    if (version == nullptr) return kErrorInvalidParameter;
    *version = simgpu::cupti_version();
    return kSuccess;
  });
}

Result cuptiGetResultString(Result result, const char** text) {
  if (text == nullptr) return kErrorInvalidParameter;
  for (const ResultText& known : kResults) {
    if (known.result != result) continue;
    *text = known.text;
    return kSuccess;
  }
  *text = "CUPTI_ERROR of a value that the double does not name";
  return kErrorInvalidParameter;
}

Result cuptiSetThreadIdType(ThreadIdType type) {
  return api("cuptiSetThreadIdType",
             [&]() -> Result { return type <= kThreadIdSystem ? kSuccess : kErrorInvalidParameter; });
}

Result cuptiFinalize() {
  return api("cuptiFinalize", []() -> Result {
    if (simgpu::driver() == nullptr) return kErrorNotInitialized;
    die_where_the_real_one_does();
    simgpu::end_session();
    simgpu::forget_subscriber();
    simgpu::finalize_buffers(simgpu::knob("SIMGPU_FINALIZE_LOSES", 0) != 0);
    return kSuccess;
  });
}

// PC sampling is not simulated.
Result cuptiPCSamplingEnable(void*) { return not_supported("cuptiPCSamplingEnable"); }
Result cuptiPCSamplingDisable(void*) { return not_supported("cuptiPCSamplingDisable"); }
Result cuptiPCSamplingStart(void*) { return not_supported("cuptiPCSamplingStart"); }
Result cuptiPCSamplingStop(void*) { return not_supported("cuptiPCSamplingStop"); }
Result cuptiPCSamplingGetData(void*) { return not_supported("cuptiPCSamplingGetData"); }
Result cuptiPCSamplingGetNumStallReasons(void*) { return not_supported("cuptiPCSamplingGetNumStallReasons"); }
Result cuptiPCSamplingGetStallReasons(void*) { return not_supported("cuptiPCSamplingGetStallReasons"); }
Result cuptiPCSamplingSetConfigurationAttribute(void*) {
  return not_supported("cuptiPCSamplingSetConfigurationAttribute");
}
Result cuptiGetSassToSourceCorrelation(void*) { return not_supported("cuptiGetSassToSourceCorrelation"); }
}
