// SPDX-License-Identifier: Apache-2.0
#include "module_keeper.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "system_calls.h"

namespace pillion::shim {
namespace {

constexpr int kLockTries = 1000;
constexpr std::uint64_t kLockPauseNs = 100'000;

}  // namespace

bool ModuleKeeper::lock(std::uint32_t tid) {
  for (int tried = 0; tried < kLockTries; ++tried) {
    std::uint32_t seen = 0;
    if (holder_.compare_exchange_strong(seen, tid, std::memory_order_acquire)) return true;
    if (seen == tid) return false;
    sleep_ns(kLockPauseNs);
  }
  return false;
}

void ModuleKeeper::on_resource(std::uint32_t cbid, const cupti::ResourceData* resource,
                               cupti::GetContextId context_id, std::uint32_t tid) {
  const bool loaded = cbid == cupti::kResourceModuleLoaded;
  if (!loaded && cbid != cupti::kResourceModuleUnloadStarting) return;
  if (resource == nullptr || resource->resource_descriptor == nullptr) return;
  const auto& module = *static_cast<const cupti::ModuleResourceData*>(resource->resource_descriptor);
  std::uint32_t context = 0;
  if (loaded && context_id != nullptr && resource->context != nullptr &&
      context_id(resource->context, &context) != cupti::kSuccess) {
    context = 0;
  }
  const int saved_errno = errno;
  if (!lock(tid)) {
    if (loaded) evicted_.fetch_add(1, std::memory_order_relaxed);
    errno = saved_errno;
    return;
  }
  if (loaded) {
    keep(module, context);
  } else {
    for (Kept& kept : kept_) {
      if (kept.bytes != nullptr && kept.loaded && kept.module == module.module_id) kept.loaded = false;
    }
  }
  unlock();
  errno = saved_errno;
}

void ModuleKeeper::evict(Kept& kept) {
  ::munmap(kept.bytes, kept.size);
  bytes_ -= kept.size;
  kept.bytes = nullptr;
  evicted_.fetch_add(1, std::memory_order_relaxed);
}

ModuleKeeper::Kept* ModuleKeeper::oldest() {
  Kept* found = nullptr;
  for (Kept& kept : kept_) {
    if (kept.bytes != nullptr && (found == nullptr || kept.serial < found->serial)) found = &kept;
  }
  return found;
}

void ModuleKeeper::keep(const cupti::ModuleResourceData& module, std::uint32_t context) {
  if (module.cubin == nullptr || module.cubin_size == 0) return;
  if (module.cubin_size > kBytesMax) {
    evicted_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  while (bytes_ + module.cubin_size > kBytesMax) evict(*oldest());
  Kept* place = nullptr;
  for (Kept& kept : kept_) {
    if (kept.bytes == nullptr) place = &kept;
  }
  if (place == nullptr) {
    place = oldest();
    evict(*place);
  }
  void* copy = ::mmap(nullptr, module.cubin_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) {
    evicted_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  ::madvise(copy, module.cubin_size, MADV_DONTFORK);
  std::memcpy(copy, module.cubin, module.cubin_size);
  bytes_ += module.cubin_size;
  *place = {copy, module.cubin_size, ++serial_, monotonic_ns(), module.module_id, context, true};
}

void ModuleKeeper::begin_replay() {
  replayed_ = 0;
  if (!lock(this_tid())) return;
  replay_last_ = serial_;
  unlock();
}

ModuleKeeper::Kept* ModuleKeeper::next_to_replay() {
  Kept* found = nullptr;
  for (Kept& kept : kept_) {
    if (kept.bytes == nullptr || kept.serial <= replayed_ || kept.serial > replay_last_) continue;
    if (found == nullptr || kept.serial < found->serial) found = &kept;
  }
  return found;
}

bool ModuleKeeper::replay(ModuleStore& store, std::uint32_t tid) {
  if (replayed_ >= replay_last_) return true;
  if (!lock(tid)) return false;
  bool room = true;
  while (room) {
    Kept* kept = next_to_replay();
    if (kept == nullptr) {
      replayed_ = replay_last_;
      break;
    }
    const std::uint32_t id =
        kept->loaded ? kept->module : kUnloadedIds | static_cast<std::uint32_t>(kept->serial);
    room =
        store.replay({PILLION_MODULE_LOADED, id, kept->context, kept->time_ns, kept->bytes, kept->size}, tid);
    if (room) replayed_ = kept->serial;
  }
  unlock();
  return replayed_ >= replay_last_;
}

}  // namespace pillion::shim
