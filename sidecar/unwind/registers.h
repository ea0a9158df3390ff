// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "abi/pillion_abi.h"

namespace pillion::unwind {

// Register values of one frame, in the order of enum pillion_snapshot_register, and which of them are known.
struct Registers {
  std::array<std::uint64_t, PILLION_REG_COUNT> values{};
  std::uint8_t known = 0;  // bit per register

  [[nodiscard]] std::uint64_t rip() const { return values[PILLION_REG_RIP]; }
  [[nodiscard]] std::uint64_t rsp() const { return values[PILLION_REG_RSP]; }
  [[nodiscard]] std::uint64_t rbp() const { return values[PILLION_REG_RBP]; }
  [[nodiscard]] bool knows(unsigned index) const { return (known >> index & 1U) != 0; }
  void set(unsigned index, std::uint64_t value) {
    values[index] = value;
    known = static_cast<std::uint8_t>(known | 1U << index);
  }
  void forget(unsigned index) { known = static_cast<std::uint8_t>(known & ~(1U << index)); }
};

constexpr std::uint8_t kAllRegisters = 0xff;
constexpr std::uint8_t kWalkRegisters = 1U << PILLION_REG_RIP | 1U << PILLION_REG_RSP | 1U << PILLION_REG_RBP;

// The copied stack: the only memory that unwinding reads. Does not own the bytes.
class StackView {
 public:
  StackView(std::uint64_t start, std::span<const std::byte> bytes) : start_(start), bytes_(bytes) {}

  // Reads 8 bytes at a target address; false when they were not copied.
  [[nodiscard]] bool read(std::uint64_t address, std::uint64_t& value) const {
    const std::uint64_t offset = address - start_;
    if (bytes_.size() < sizeof value || offset > bytes_.size() - sizeof value) return false;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return true;
  }
  [[nodiscard]] bool is_past_end(std::uint64_t address) const {
    return address >= start_ && address - start_ + sizeof(std::uint64_t) > bytes_.size();
  }

 private:
  std::uint64_t start_;
  std::span<const std::byte> bytes_;
};

}  // namespace pillion::unwind
