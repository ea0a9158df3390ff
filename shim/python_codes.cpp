// SPDX-License-Identifier: Apache-2.0
#include "python_codes.h"

#include <sys/mman.h>

#include <cstring>

namespace pillion::shim {

using python_object::kAscii;
using python_object::kBytesData;
using python_object::kLength;
using python_object::kState;

namespace {

constexpr int kProbes = 64;
struct CodeTexts {
  PythonText name;
  PythonText file;
  PythonText lines;

  [[nodiscard]] bool complete() const { return name.width != 0 && file.width != 0 && lines.width != 0; }
};

PILLION_RAW CodeTexts read_texts(const CodeLook& look, std::uint64_t code) {
  const PythonOffsets& table = *look.interpreter.offsets;
  return {read_str(look.interpreter, look.pages, load<std::uint64_t>(code + table.code_name)),
          read_str(look.interpreter, look.pages, load<std::uint64_t>(code + table.code_filename)),
          read_bytes(look.interpreter, look.pages, load<std::uint64_t>(code + table.code_lines))};
}

PILLION_RAW std::uint32_t first_line_of(const CodeLook& look, std::uint64_t code) {
  return load<std::uint32_t>(code + look.interpreter.offsets->code_first_line);
}

[[gnu::no_sanitize("address", "thread")]] bool equal(const std::uint8_t* copy, std::uint64_t at,
                                                     std::uint64_t bytes) {
  return __builtin_memcmp(copy, reinterpret_cast<const void*>(at), bytes) == 0;
}

std::uint32_t padded(std::uint32_t bytes) { return (bytes + 7u) & ~7u; }

}  // namespace

bool PythonCodes::begin() {
  if (text_ == nullptr) {
    void* memory = ::mmap(nullptr, kTextBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    text_ = static_cast<std::uint8_t*>(memory);
  }
  for (Set& set : sets_) {
    for (auto& cell : set.cell) cell.store(0, std::memory_order_relaxed);
  }
  for (Slot& slot : slots_) slot.state.store(kEmpty, std::memory_order_relaxed);
  text_used_.store(0, std::memory_order_relaxed);
  unsent_.store(0, std::memory_order_relaxed);
  return true;
}

void PythonCodes::end() {
  if (text_ != nullptr) ::madvise(text_, kTextBytes, MADV_DONTNEED);
}

// All of the line table, and of a path that lies in memory as it was sent.
PILLION_RAW bool PythonCodes::same_texts(const PythonOffsets& table, const Slot& slot,
                                         std::uint64_t code) const {
  pillion_python_code record;
  std::memcpy(&record, text_ + slot.offset, sizeof record);
  const std::uint8_t* file = text_ + slot.offset + sizeof record + record.qualname_bytes;
  const auto lines = load<std::uint64_t>(code + table.code_lines);
  const auto path = load<std::uint64_t>(code + table.code_filename);
  const bool ascii = (load<std::uint32_t>(path + kState) & kAscii) != 0;
  return load<std::uint64_t>(lines + kLength) == record.line_table_bytes &&
         (!ascii || equal(file, path + table.text_ascii, record.filename_bytes)) &&
         equal(file + record.filename_bytes, lines + kBytesData, record.line_table_bytes);
}

// First sight of this object, or of what is at its address now.
[[gnu::noinline, gnu::cold]] std::uint32_t PythonCodes::meet(const CodeLook& look, std::uint64_t code,
                                                             Checks checks) {
  const CodeTexts texts = read_texts(look, code);
  if (!checks.enough && texts.complete()) {
    checks.deep = deep_check_of(*look.interpreter.offsets, code);
    checks.enough = true;
  }
  const std::uint32_t first_line = first_line_of(look, code);
  const std::uint64_t hash = hash_text(texts.lines, hash_text(texts.file, hash_text(texts.name, first_line)));
  std::size_t at = hash & (kCodes - 1);
  for (int probe = 0; probe < kProbes; ++probe, at = (at + 1) & (kCodes - 1)) {
    Slot& slot = slots_[at];
    // Pairs with the release store in fill(): the slot's fields and the record are there.
    std::uint8_t state = slot.state.load(std::memory_order_acquire);
    if (state == kEmpty && slot.state.compare_exchange_strong(state, kFilling, std::memory_order_acquire)) {
      if (!fill(slot, look, code, hash)) break;
      count(look.session.counters, look.tid, &pillion_counters::python_codes);
      send(slot, look.session, look.number, look.tid);
      remember(code, checks, at + 1);
      return static_cast<std::uint32_t>(at) + 1;
    }
    if (state < kUnsent || slot.hash != hash || slot.first_line != first_line) continue;
    remember(code, checks, at + 1);
    return static_cast<std::uint32_t>(at) + 1;
  }
  count(look.session.counters, look.tid, &pillion_counters::python_codes_refused);
  return 0;
}

bool PythonCodes::fill(Slot& slot, const CodeLook& look, std::uint64_t code, std::uint64_t hash) {
  const CodeTexts texts = read_texts(look, code);
  pillion_python_code head{};
  bool cut = false;
  head.id = static_cast<std::uint32_t>(&slot - slots_) + 1;
  head.version = look.interpreter.offsets->version;
  head.first_line = first_line_of(look, code);
  head.qualname_bytes = utf8_bytes(texts.name, kNameBytesMax, &cut);
  head.filename_bytes = utf8_bytes(texts.file, kFileBytesMax, &cut);
  head.line_table_bytes =
      texts.lines.length <= kLineBytesMax ? static_cast<std::uint32_t>(texts.lines.length) : 0;
  if (cut) head.flags |= PILLION_PYTHON_CODE_NAME_CUT;
  if (texts.name.width == 0 || texts.file.width == 0) head.flags |= PILLION_PYTHON_CODE_NAME_LOST;
  if (texts.lines.width == 0 || texts.lines.length > kLineBytesMax)
    head.flags |= PILLION_PYTHON_CODE_LINES_CUT;
  const std::uint32_t bytes = padded(static_cast<std::uint32_t>(sizeof head) + head.qualname_bytes +
                                     head.filename_bytes + head.line_table_bytes);
  head.header = {PILLION_RECORD_PYTHON_CODE, 0, bytes};
  const std::size_t offset = text_used_.fetch_add(bytes, std::memory_order_relaxed);
  if (offset + bytes > kTextBytes) {
    text_used_.fetch_sub(bytes, std::memory_order_relaxed);
    slot.state.store(kEmpty, std::memory_order_release);
    return false;
  }
  std::uint8_t* to = text_ + offset;
  std::memcpy(to, &head, sizeof head);
  to += sizeof head;
  write_utf8(texts.name, to, head.qualname_bytes);
  write_utf8(texts.file, to + head.qualname_bytes, head.filename_bytes);
  if (head.line_table_bytes != 0) {
    std::memcpy(to + head.qualname_bytes + head.filename_bytes,
                reinterpret_cast<const void*>(texts.lines.data), head.line_table_bytes);
  }
  slot.offset = static_cast<std::uint32_t>(offset);
  slot.bytes = bytes;
  slot.first_line = head.first_line;
  slot.hash = hash;
  unsent_.fetch_add(1, std::memory_order_relaxed);
  slot.state.store(kUnsent, std::memory_order_release);
  return true;
}

// `checks.enough`: all that there is to tell this object from its successor is known; else it is met each
// time.
void PythonCodes::remember(std::uint64_t code, const Checks& checks, std::uint64_t id) {
  if (!checks.enough) return;
  Set& set = set_of(code);
  // Where it is, else a free place, else the first one that find() looks at.
  std::size_t way = first_way(code);
  for (std::size_t tried = 0, at = way; tried < Set::kWays; ++tried, at = (at + 1) % Set::kWays) {
    const std::uint64_t seen = set.cell[at].load(std::memory_order_relaxed);
    if (seen != 0 && (seen ^ word_of(code, 0)) > kIdMask) continue;
    way = at;
    break;
  }
  // Taken away by one thread at a time; who comes second leaves it to the first.
  std::uint64_t seen = set.cell[way].load(std::memory_order_relaxed);
  if (seen == kBusy || !set.cell[way].compare_exchange_strong(seen, kBusy, std::memory_order_acq_rel)) return;
  set.cell[Set::kWays + way].store(checks.check, std::memory_order_release);
  set.cell[2 * Set::kWays + way].store(checks.deep, std::memory_order_release);
  set.cell[way].store(word_of(code, id), std::memory_order_release);
}

// Two threads may send one record twice: harmless, and cheaper than a lock.
void PythonCodes::send(Slot& slot, CaptureSession& session, std::uint32_t number, std::uint32_t tid) {
  Reservation room;
  if (session.events->reserve(tid, slot.bytes, &room) != PushResult::ok) return;
  if (session.number.load(std::memory_order_relaxed) != number) {
    session.events->abort(room);
    return;
  }
  room.write(0, text_ + slot.offset, slot.bytes);
  session.events->commit(room, slot.bytes);
  if (slot.state.exchange(kSent, std::memory_order_relaxed) == kUnsent)
    unsent_.fetch_sub(1, std::memory_order_relaxed);
}

void PythonCodes::retry_unsent(CaptureSession& session, std::uint32_t number, std::uint32_t tid) {
  if (unsent_.load(std::memory_order_relaxed) == 0) return;
  for (Slot& slot : slots_) {
    if (slot.state.load(std::memory_order_acquire) == kUnsent) send(slot, session, number, tid);
  }
}

}  // namespace pillion::shim
