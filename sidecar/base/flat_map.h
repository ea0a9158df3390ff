// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace pillion {

// Mixes 64 bits so that neighbouring keys (correlation ids) and aligned ones (addresses) both spread.
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t value) {
  value ^= value >> 32;
  value *= 0x9e3779b97f4a7c15u;
  value ^= value >> 29;
  value *= 0xbf58476d1ce4e5b9u;
  return value ^ (value >> 32);
}

// Unknown to the workload, whose ids are the keys: it cannot choose keys that all land in one place.
inline const std::uint64_t kHashSeed = [] {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}();

struct Mix64 {
  std::uint64_t operator()(std::uint64_t key) const { return mix64(key ^ kHashSeed); }
};

// Open addressing with linear probing and no tombstones: one byte of tag and one slot per entry, so a launch
// that comes and goes costs two cache lines and no allocation (std::unordered_map: a malloc and a free each
// time). One owner thread. Pointers from find() and insert() live until the next insert(), erase() or
// clear(). Key and Value must be default constructible and cheap to move; the table grows by doubling and
// never shrinks.
template <typename Key, typename Value, typename Hash = Mix64>
class FlatMap {
 public:
  struct Slot {
    Key key{};
    Value value{};
  };

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }

  [[nodiscard]] Value* find(const Key& key) {
    const std::size_t at = locate(key);
    return at == kNone ? nullptr : &slots_[at].value;
  }
  [[nodiscard]] const Value* find(const Key& key) const {
    const std::size_t at = locate(key);
    return at == kNone ? nullptr : &slots_[at].value;
  }

  // The value of `key`, made first if need be; second: whether it was made.
  std::pair<Value*, bool> insert(const Key& key) {
    if ((size_ + 1) * 8 > slots_.size() * 5) grow();
    const std::uint64_t hash = Hash{}(key);
    std::size_t at = hash & mask();
    for (; tags_[at] != 0; at = (at + 1) & mask()) {
      if (tags_[at] == tag_of(hash) && slots_[at].key == key) return {&slots_[at].value, false};
    }
    tags_[at] = tag_of(hash);
    slots_[at].key = key;
    slots_[at].value = Value{};
    ++size_;
    return {&slots_[at].value, true};
  }

  bool erase(const Key& key) {
    std::size_t hole = locate(key);
    if (hole == kNone) return false;
    // Close the gap: an entry may move back only if its home is not beyond the hole.
    for (std::size_t next = (hole + 1) & mask(); tags_[next] != 0; next = (next + 1) & mask()) {
      const std::size_t home = Hash{}(slots_[next].key) & mask();
      if (((next - home) & mask()) < ((next - hole) & mask())) continue;
      tags_[hole] = tags_[next];
      slots_[hole] = std::move(slots_[next]);
      hole = next;
    }
    tags_[hole] = 0;
    slots_[hole] = Slot{};
    --size_;
    return true;
  }

  void clear() {
    slots_ = {};
    tags_ = {};
    size_ = 0;
  }

  // visit(const Key&, Value&) on every entry, in no order; it must not change the table.
  template <typename Visit>
  void for_each(Visit&& visit) {
    for (std::size_t at = 0; at < slots_.size(); ++at) {
      if (tags_[at] != 0) visit(std::as_const(slots_[at].key), slots_[at].value);
    }
  }
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t at = 0; at < slots_.size(); ++at) {
      if (tags_[at] != 0) visit(slots_[at].key, slots_[at].value);
    }
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  static constexpr std::size_t kFirstSlots = 64;

  [[nodiscard]] std::size_t mask() const { return slots_.size() - 1; }
  [[nodiscard]] static std::uint8_t tag_of(std::uint64_t hash) {
    return static_cast<std::uint8_t>((hash >> 57) | 0x80u);
  }

  [[nodiscard]] std::size_t locate(const Key& key) const {
    if (size_ == 0) return kNone;
    const std::uint64_t hash = Hash{}(key);
    for (std::size_t at = hash & mask(); tags_[at] != 0; at = (at + 1) & mask()) {
      if (tags_[at] == tag_of(hash) && slots_[at].key == key) return at;
    }
    return kNone;
  }

  void grow() {
    std::vector<Slot> old_slots(slots_.empty() ? kFirstSlots : slots_.size() * 2);
    std::vector<std::uint8_t> old_tags(old_slots.size());
    old_slots.swap(slots_);
    old_tags.swap(tags_);
    for (std::size_t from = 0; from < old_slots.size(); ++from) {
      if (old_tags[from] == 0) continue;
      std::size_t at = Hash{}(old_slots[from].key) & mask();
      while (tags_[at] != 0) at = (at + 1) & mask();
      tags_[at] = old_tags[from];
      slots_[at] = std::move(old_slots[from]);
    }
  }

  std::vector<Slot> slots_;
  std::vector<std::uint8_t> tags_;  // 0: empty; else 7 bits of the hash, so that most misses touch no slot
  std::size_t size_ = 0;
};

}  // namespace pillion
