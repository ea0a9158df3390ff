// SPDX-License-Identifier: Apache-2.0
#include "base/stack_table.h"

namespace pillion {
namespace {

std::uint64_t hash_of(const UnwoundStack& stack) {
  std::uint64_t hash = mix64(static_cast<std::uint64_t>(stack.ending) + 1);
  for (const UnwoundFrame& frame : stack.frames) {
    hash = mix64(hash ^ frame.address) + ((static_cast<std::uint64_t>(frame.file) << 8) |
                                          (static_cast<std::uint64_t>(frame.kind) << 1) |
                                          (frame.is_return ? 1 : 0));
  }
  return mix64(hash);
}

}  // namespace

bool StackTable::equal(const Entry& entry, const UnwoundStack& stack) const {
  if (entry.frames != stack.frames.size() || entry.ending != stack.ending) return false;
  for (std::size_t i = 0; i < stack.frames.size(); ++i) {
    if (frames_[entry.first + i] != packed(stack.frames[i])) return false;
  }
  return true;
}

StackId StackTable::intern(const UnwoundStack& stack) {
  const std::uint64_t hash = hash_of(stack);
  const std::lock_guard lock(mutex_);
  StackId first = 0;
  if (const StackId* found = by_hash_.find(hash)) {
    first = *found;
    for (StackId id = first; id != 0; id = entries_[id - 1].next) {
      if (equal(entries_[id - 1], stack)) return id;
    }
  }
  if (entries_.size() >= limits_.stacks_max || stack.frames.size() > limits_.frames_max - frames_.size()) {
    ++refused_;
    return 0;
  }
  entries_.push_back({frames_.size(), static_cast<std::uint32_t>(stack.frames.size()), stack.ending, first});
  for (const UnwoundFrame& frame : stack.frames) frames_.push_back(packed(frame));
  const auto id = static_cast<StackId>(entries_.size());
  *by_hash_.insert(hash).first = id;
  return id;
}

UnwoundStack StackTable::stack(StackId id) const {
  const std::lock_guard lock(mutex_);
  if (id == 0 || id > entries_.size()) return {{}, StackEnding::no_mapping};
  const Entry& entry = entries_[id - 1];
  UnwoundStack stack{{}, entry.ending};
  stack.frames.reserve(entry.frames);
  for (std::size_t i = 0; i < entry.frames; ++i) {
    const Frame& frame = frames_[entry.first + i];
    stack.frames.push_back({frame.file, frame.address, frame.is_return != 0, frame.kind});
  }
  return stack;
}

StackEnding StackTable::ending(StackId id) const {
  const std::lock_guard lock(mutex_);
  return id == 0 || id > entries_.size() ? StackEnding::no_mapping : entries_[id - 1].ending;
}

std::size_t StackTable::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::uint64_t StackTable::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

}  // namespace pillion
