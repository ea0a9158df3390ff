// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "records.h"

namespace pillion::collect {

struct ParseCounts {
  std::uint64_t records = 0;          // delivered
  std::uint64_t unknown_records = 0;  // types, or kinds of launch, of a newer minor: skipped
  std::uint64_t malformed = 0;        // batches given up at a record that cannot be
  std::uint64_t malformed_bytes = 0;  // from there to the end of the batch
  std::uint64_t cut_snapshots = 0;    // over kStackBytesMax: cut, marked truncated
  std::uint64_t cut_names = 0;        // over kNameBytesMax
  std::uint64_t cut_python = 0;       // line tables or frames over their limits: left out or cut
};

// What one ring's record numbers say. Bound to be wrong only where more than 65,534 records were lost at
// once.
struct SequenceCheck {
  std::uint16_t last = 0;     // 0: none yet
  std::uint64_t missing = 0;  // records that were published and never came
  void on_record(std::uint16_t sequence) {
    if (sequence == 0) return;  // a shim of minor 0 does not number them
    // Numbers go round 1..65,535, so distances are modulo 65,535; from 0, the state before the first record,
    // too.
    constexpr std::uint32_t kNumbers = 0xffff;
    missing += (sequence + kNumbers - 1 - last) % kNumbers;
    last = sequence;
  }
};

inline constexpr std::uint32_t kStackBytesMax = 1u << 20;
inline constexpr std::uint32_t kNameBytesMax = 1u << 16;
inline constexpr std::uint32_t kLineTableBytesMax = 1u << 18;

// Delivers the records of `batch`, whose bytes are private by now and otherwise believed of nothing. The
// first record whose size is impossible ends it: where the next one begins is not known then; how many there
// were the next batch's numbers tell.
void parse_records(std::span<const std::byte> batch, RecordSink& sink, ParseCounts& counts,
                   SequenceCheck& sequence);

}  // namespace pillion::collect
