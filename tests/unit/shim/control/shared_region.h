// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "abi/pillion_abi.h"

namespace pillion::shim::test {

// What the sidecar makes for ARM: a memfd with a region in it, mapped here as the sidecar would have it.
struct RegionPlan {
  std::uint32_t kind = PILLION_REGION_EVENTS;
  std::uint64_t generation = 1;
  std::uint32_t ring_count = 4;
  std::uint32_t ring_bytes = 64 * 1024;
  int seals = 7;  // F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW
  bool ready = true;
  bool populate = true;
};

class SharedRegion {
 public:
  explicit SharedRegion(const RegionPlan& plan);
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] pillion_region_header& header() { return *reinterpret_cast<pillion_region_header*>(base_); }
  [[nodiscard]] pillion_ring& ring(std::uint32_t index);
  [[nodiscard]] std::uint64_t counter(std::uint64_t pillion_counters::*field);
  [[nodiscard]] std::uint8_t* base() { return base_; }

  // Copies out what was published in one ring since the last call, and gives the room back: whole records.
  [[nodiscard]] std::vector<std::vector<std::uint8_t>> drain(std::uint32_t index);

 private:
  int fd_ = -1;
  std::uint8_t* base_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace pillion::shim::test
