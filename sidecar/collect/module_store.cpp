// SPDX-License-Identifier: Apache-2.0
#include "collect/module_store.h"

#include "abi/pillion_abi.h"

namespace pillion::collect {

namespace {

std::uint64_t fnv1a(const std::vector<std::byte>& bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte byte : bytes) hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3u;
  return hash;
}

}  // namespace

void ModuleStore::add(TargetId target, ModuleBytes module) {
  module.fnv1a = fnv1a(module.bytes);
  const std::lock_guard lock(mutex_);
  if (module.origin == PILLION_MODULE_UNLOADED) {
    ++counts_.unloaded;
    return;
  }
  if (module.bytes.size() > bytes_max_) {
    ++counts_.too_large;
    return;
  }
  const Key key{target, module.module};
  if (const auto same = held_.find(key); same != held_.end()) {
    ++counts_.replaced;
    remove(same);
  }
  while (!held_.empty() &&
         (held_.size() >= modules_max_ || module.bytes.size() > bytes_max_ - counts_.bytes)) {
    ++counts_.evicted;
    remove(held_.find(oldest_first_.front()));
  }
  ++counts_.stored;
  ++counts_.modules;
  counts_.bytes += module.bytes.size();
  const auto age = oldest_first_.insert(oldest_first_.end(), key);
  held_[key] = Held{std::make_shared<const ModuleBytes>(std::move(module)), age};
}

void ModuleStore::note_too_large() {
  const std::lock_guard lock(mutex_);
  ++counts_.too_large;
}

std::shared_ptr<const ModuleBytes> ModuleStore::find(TargetId target, std::uint32_t module) const {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find({target, module});
  return found == held_.end() ? nullptr : found->second.module;
}

std::vector<std::shared_ptr<const ModuleBytes>> ModuleStore::of_target(TargetId target) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const ModuleBytes>> modules;
  for (auto held = held_.lower_bound({target, 0}); held != held_.end() && held->first.first == target;
       ++held) {
    modules.push_back(held->second.module);
  }
  return modules;
}

std::vector<std::pair<TargetId, std::shared_ptr<const ModuleBytes>>> ModuleStore::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<TargetId, std::shared_ptr<const ModuleBytes>>> modules;
  modules.reserve(held_.size());
  for (const auto& [key, held] : held_) modules.emplace_back(key.first, held.module);
  return modules;
}

void ModuleStore::forget(TargetId target) {
  const std::lock_guard lock(mutex_);
  auto held = held_.lower_bound({target, 0});
  while (held != held_.end() && held->first.first == target) remove(held++);
}

ModuleStoreCounts ModuleStore::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void ModuleStore::remove(std::map<Key, Held>::iterator held) {
  --counts_.modules;
  counts_.bytes -= held->second.module->bytes.size();
  oldest_first_.erase(held->second.age);
  held_.erase(held);
}

}  // namespace pillion::collect
