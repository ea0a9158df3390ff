// SPDX-License-Identifier: Apache-2.0
#include "cupti_api.h"

#include <dlfcn.h>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "bounded_text.h"
#include "cupti_fit.h"
#include "cupti_search.h"
#include "handed_files.h"

namespace pillion::shim {
namespace {

CuptiApi g_api;
std::atomic<const CuptiApi*> g_loaded{nullptr};

// Names what was tried, for a refusal that a person can act on.
struct Attempt {
  std::uint32_t driver_version;
  pillion_refused* refused;
};

template <typename Function>
bool bind(void* library, const char* name, Function* out) {
  *out = reinterpret_cast<Function>(dlsym(library, name));
  return *out != nullptr;
}

bool bind_all(void* library, CuptiApi* api) {
  bind(library, "cuptiSubscribe_v2", &api->subscribe_v2);
  bind(library, "cuptiGetResultString", &api->result_string);
  bind(library, "cuptiActivityRegisterTimestampCallback", &api->register_timestamp);
  bind(library, "cuptiGetTimestamp", &api->get_timestamp);
  bind(library, "cuptiActivityEnableAndDump", &api->enable_and_dump);
  bind(library, "cuptiActivityGetNumDroppedRecords", &api->dropped_records);
  bind(library, "cuptiActivitySetAttribute", &api->set_attribute);
  bind(library, "cuptiSetThreadIdType", &api->set_thread_id_type);
  bind(library, "cuptiGetContextId", &api->context_id);
  bind(library, "cuptiGetCallbackState", &api->callback_state);
  return bind(library, "cuptiSubscribe", &api->subscribe) &&
         bind(library, "cuptiUnsubscribe", &api->unsubscribe) &&
         bind(library, "cuptiEnableCallback", &api->enable_callback) &&
         bind(library, "cuptiActivityRegisterCallbacks", &api->register_callbacks) &&
         bind(library, "cuptiActivityEnable", &api->activity_enable) &&
         bind(library, "cuptiActivityDisable", &api->activity_disable) &&
         bind(library, "cuptiActivityFlushAll", &api->flush_all) &&
         bind(library, "cuptiActivityGetNextRecord", &api->next_record) &&
         bind(library, "cuptiFinalize", &api->finalize);
}

void add_cuda_version(BoundedText& text, std::uint32_t version) {
  text.add(std::uint64_t{version / 1000}).add(".").add(std::uint64_t{version % 1000 / 10});
}

void refuse_mismatch(const Attempt& attempt, const char* path, std::uint32_t api_version, CuptiFit fit) {
  attempt.refused->reason = PILLION_REFUSAL_CUPTI_MISMATCH;
  BoundedText text(attempt.refused->text);
  text.add("CUPTI of CUDA ");
  add_cuda_version(text, cuda_version_of_cupti(api_version));
  text.add(" (API version ").add(std::uint64_t{api_version}).add(", ").add(path).add(")");
  text.add(fit == CuptiFit::too_new ? " is too new for" : " is too old for")
      .add(" the driver, which supports CUDA ");
  add_cuda_version(text, attempt.driver_version);
}

void refuse_missing(const Attempt& attempt, const char* path, const char* why) {
  if (attempt.refused->reason == PILLION_REFUSAL_CUPTI_MISMATCH) return;  // says more
  attempt.refused->reason = PILLION_REFUSAL_NO_CUPTI;
  BoundedText(attempt.refused->text).add(path).add(": ").add(why);
}

// Nothing of the library but cuptiGetVersion is called before it is known to fit.
bool try_library(void* library, const char* path, const Attempt& attempt) {
  CuptiApi api{};
  if (!bind(library, "cuptiGetVersion", &api.get_version) || !bind_all(library, &api)) {
    refuse_missing(attempt, path, "lacks functions of CUPTI");
    return false;
  }
  if (api.get_version(&api.version) != cupti::kSuccess) {
    refuse_missing(attempt, path, "does not tell its version");
    return false;
  }
  const CuptiFit fit = cupti_fit(api.version, attempt.driver_version);
  if (fit != CuptiFit::fits) {
    refuse_mismatch(attempt, path, api.version, fit);
    return false;
  }
  api.layout = record_layout(api.version);
  char real[sizeof(api.path)];
  void* address = reinterpret_cast<void*>(api.get_version);
  Dl_info info{};
  const bool named = dladdr(address, &info) != 0 && info.dli_fname != nullptr;
  BoundedText(real).add(named ? info.dli_fname : path);
  std::memcpy(api.path, real, sizeof(real));
  std::memcpy(&g_api, &api, sizeof(api));
  g_loaded.store(&g_api, std::memory_order_release);
  return true;
}

bool try_path(const char* path, int flags, const Attempt& attempt) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL | flags);
  if (library == nullptr) {
    const char* error = dlerror();
    refuse_missing(attempt, path, error != nullptr ? error : "cannot be loaded");
    return false;
  }
  return try_library(library, path, attempt);
}

bool try_shipped(const Attempt& attempt) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&cupti_load), &info) == 0 || info.dli_fname == nullptr) return false;
  const char* slash = std::strrchr(info.dli_fname, '/');
  if (slash == nullptr) return false;
  char folder[256];
  BoundedText(folder).add(info.dli_fname, static_cast<std::size_t>(slash - info.dli_fname));
  CuptiCandidates candidates;
  find_shipped_cupti(folder, &candidates);
  candidates.order_for(attempt.driver_version);
  for (std::size_t at = 0; at < candidates.size(); ++at) {
    if (try_path(candidates[at].path, 0, attempt)) return true;
  }
  return false;
}

// What an injector brought along, since nothing lies next to a shim without a folder.
bool try_handed(const Attempt& attempt) {
  HandedCupti handed[kHandedMax];
  const std::size_t count = handed_cupti(handed);
  CuptiCandidates candidates;
  for (std::size_t at = 0; at < count; ++at)
    candidates.add(handed[at].cuda_version, "/proc/thread-self/fd", handed[at].name);
  candidates.order_for(attempt.driver_version);
  for (std::size_t at = 0; at < candidates.size(); ++at) {
    if (try_path(candidates[at].path, 0, attempt)) return true;
  }
  return false;
}

bool try_search_path(const Attempt& attempt) {
  constexpr struct {
    std::uint32_t major;
    const char* soname;
  } kSonames[] = {{13, "libcupti.so.13"},   {12, "libcupti.so.12"},   {11, "libcupti.so.11.8"},
                  {11, "libcupti.so.11.7"}, {11, "libcupti.so.11.6"}, {11, "libcupti.so.11.5"},
                  {11, "libcupti.so.11.4"}, {11, "libcupti.so.11.3"}, {11, "libcupti.so.11.2"},
                  {11, "libcupti.so.11.1"}, {11, "libcupti.so.11.0"}};
  const std::uint32_t driver_major = attempt.driver_version != 0 ? attempt.driver_version / 1000 : ~0u;
  for (const auto& entry : kSonames) {
    if (entry.major <= driver_major && try_path(entry.soname, 0, attempt)) return true;
  }
  // Those that cannot fit, so that the refusal names what is there.
  for (const auto& entry : kSonames) {
    if (entry.major > driver_major && try_path(entry.soname, 0, attempt)) return true;
  }
  return false;
}

}  // namespace

const CuptiApi* cupti_load(std::uint32_t driver_version, pillion_refused* refused) {
  if (const CuptiApi* api = cupti_loaded()) return api;
  const Attempt attempt{driver_version, refused};
  const char* forced = std::getenv("PILLION_CUPTI_PATH");
  if (forced != nullptr && forced[0] != '\0') {
    return try_path(forced, 0, attempt) ? cupti_loaded() : nullptr;
  }
  // A mapped copy is the one that others in this process use. One that does not fit is of no use to anybody.
  char mapped[256];
  if (find_mapped_cupti(mapped, sizeof(mapped)) && try_path(mapped, RTLD_NOLOAD, attempt))
    return cupti_loaded();
  if (try_handed(attempt) || try_shipped(attempt) || try_search_path(attempt)) return cupti_loaded();
  if (refused->reason != PILLION_REFUSAL_CUPTI_MISMATCH) {
    refused->reason = PILLION_REFUSAL_NO_CUPTI;
    BoundedText(refused->text)
        .add(
            "no libcupti.so.13, .12 or .11.N next to libpillion.so, in its folder cupti/, or on the search "
            "path; "
            "PILLION_CUPTI_PATH can name one");
  }
  return nullptr;
}

const CuptiApi* cupti_loaded() { return g_loaded.load(std::memory_order_acquire); }

}  // namespace pillion::shim
