// SPDX-License-Identifier: Apache-2.0
#include "name_table.h"

#include <sys/mman.h>

#include <cstring>

namespace pillion::shim {
namespace {

constexpr int kProbes = 64;

// Eight bytes at a time: names are long, and this runs once per kernel record.
std::uint64_t hash_bytes(const char* text, std::size_t length) {
  std::uint64_t hash = length * 0x9e37'79b9'7f4a'7c15u;
  for (; length >= 8; text += 8, length -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text, 8);
    hash = (hash ^ word) * 0xbf58'476d'1ce4'e5b9u;
    hash ^= hash >> 31;
  }
  std::uint64_t rest = 0;
  std::memcpy(&rest, text, length);
  hash = (hash ^ rest) * 0x94d0'49bb'1331'11ebu;
  return hash ^ hash >> 32;
}

}  // namespace

bool NameTable::begin() {
  if (text_ == nullptr) {
    void* memory = ::mmap(nullptr, kTextBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    text_ = static_cast<char*>(memory);
  }
  for (Slot& slot : slots_) slot.state.store(kEmpty, std::memory_order_relaxed);
  text_used_.store(0, std::memory_order_relaxed);
  unsent_.store(0, std::memory_order_relaxed);
  refused_.store(0, std::memory_order_relaxed);
  return true;
}

void NameTable::end() {
  if (text_ != nullptr) ::munmap(text_, kTextBytes);
  text_ = nullptr;
}

std::uint32_t NameTable::intern(const char* name, RingSet& events, std::uint32_t tid) {
  const auto length = static_cast<std::uint32_t>(strnlen(name, kLengthMax));
  const std::uint64_t hash = hash_bytes(name, length);
  std::size_t at = hash & (kSlots - 1);
  for (int probe = 0; probe < kProbes; ++probe, at = (at + 1) & (kSlots - 1)) {
    Slot& slot = slots_[at];
    // Pairs with the release store in fill(): offset, length, hash and the text are there.
    std::uint8_t state = slot.state.load(std::memory_order_acquire);
    if (state == kEmpty && slot.state.compare_exchange_strong(state, kFilling, std::memory_order_acquire)) {
      if (!fill(slot, name, length, hash)) break;
      send(slot, events, tid);
      return static_cast<std::uint32_t>(at) + 1;
    }
    if (state < kUnsent || slot.hash != hash || slot.length != length) continue;
    if (std::memcmp(text_ + slot.offset, name, length) == 0) return static_cast<std::uint32_t>(at) + 1;
  }
  refused_.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

bool NameTable::fill(Slot& slot, const char* name, std::uint32_t length, std::uint64_t hash) {
  // The text lies as the body of its NAME record: the record's head before it, padding after it.
  const std::size_t bytes = sizeof(pillion_name) + ((length + 7u) & ~7u);
  const std::size_t offset = text_used_.fetch_add(bytes, std::memory_order_relaxed);
  if (offset + bytes > kTextBytes) {
    text_used_.fetch_sub(bytes, std::memory_order_relaxed);
    slot.state.store(kEmpty, std::memory_order_release);
    return false;
  }
  const pillion_name head{{PILLION_RECORD_NAME, 0, static_cast<std::uint32_t>(bytes)},
                          static_cast<std::uint32_t>(&slot - slots_) + 1,
                          length};
  std::memcpy(text_ + offset, &head, sizeof(head));
  std::memcpy(text_ + offset + sizeof(head), name, length);
  slot.offset = static_cast<std::uint32_t>(offset + sizeof(head));
  slot.length = length;
  slot.hash = hash;
  unsent_.fetch_add(1, std::memory_order_relaxed);
  slot.state.store(kUnsent, std::memory_order_release);
  return true;
}

// Two threads may send one name twice: harmless, and cheaper than a lock.
void NameTable::send(Slot& slot, RingSet& events, std::uint32_t tid) {
  const auto bytes = static_cast<std::uint32_t>(sizeof(pillion_name) + ((slot.length + 7u) & ~7u));
  if (events.push(tid, text_ + slot.offset - sizeof(pillion_name), bytes) != PushResult::ok) return;
  if (slot.state.exchange(kSent, std::memory_order_relaxed) == kUnsent) {
    unsent_.fetch_sub(1, std::memory_order_relaxed);
  }
}

std::uint32_t NameTable::retry_unsent(RingSet& events, std::uint32_t tid) {
  if (unsent_.load(std::memory_order_relaxed) == 0) return 0;
  for (Slot& slot : slots_) {
    if (slot.state.load(std::memory_order_acquire) == kUnsent) send(slot, events, tid);
  }
  return unsent_.load(std::memory_order_relaxed);
}

}  // namespace pillion::shim
