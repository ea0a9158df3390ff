// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/pillion_abi.h"

// How the activity records of the *loaded* CUPTI library lie in memory, and their translation into wire
// records. The structs grow with the versions and have been prefix-compatible since CUDA 11.0; so one set of
// offsets and one size per version and kind are enough, and a field past the loaded version's size is not
// read.
namespace pillion::shim {

// Bytes of one record of each kind as the library of that API version (cuptiGetVersion) writes it. For a
// version newer than all that are known, the newest known sizes: later structs only append.
struct RecordLayout {
  std::uint32_t kernel;
  std::uint32_t memcpy;
  std::uint32_t peer_copy;
  std::uint32_t memset;
  std::uint32_t overhead;
  std::uint32_t device;
  std::uint32_t context;
};

[[nodiscard]] RecordLayout record_layout(std::uint32_t api_version);

struct DecodedRecord {
  union {
    pillion_record_header header;  // type: enum pillion_record_type
    pillion_kernel kernel;         // its name id is still 0
    pillion_copy copy;
    pillion_set set;
    pillion_overhead overhead;
    pillion_device device;
    pillion_context context;
  };
  const char* name;  // of a kernel or device: CUPTI's own string, valid only while its buffer is; may be null
};

enum class DecodeResult : std::uint8_t {
  decoded,
  unknown_kind,  // nothing was enabled that gives such a record
  too_short,     // fewer than the version's bytes are there
};

// `record` points to `available` readable bytes. Any thread; calls nothing, follows no pointer.
[[nodiscard]] DecodeResult decode_record(const RecordLayout& layout, const std::uint8_t* record,
                                         std::size_t available, DecodedRecord* out);

}  // namespace pillion::shim
