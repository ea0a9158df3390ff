// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

// Text in a caller's fixed buffer, without stdio, which allocates and takes locks. Cut at the end, always terminated.
namespace pillion::shim {

class FixedText {
 public:
  template <std::size_t kSize>
  explicit FixedText(char (&buffer)[kSize]) : FixedText(buffer, kSize) {}
  FixedText(char* buffer, std::size_t size) : buffer_(buffer), size_(size) { buffer_[0] = '\0'; }

  FixedText& add(const char* text) { return add(text, std::strlen(text)); }

  FixedText& add(const char* text, std::size_t length) {
    const std::size_t room = size_ - 1 - length_;
    const std::size_t now = length < room ? length : room;
    std::memcpy(buffer_ + length_, text, now);
    length_ += now;
    buffer_[length_] = '\0';
    return *this;
  }

  FixedText& add_decimal(std::uint64_t value) {
    char digits[20];
    std::size_t at = sizeof(digits);
    do {
      digits[--at] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    return add(digits + at, sizeof(digits) - at);
  }

  [[nodiscard]] std::size_t length() const { return length_; }

 private:
  char* buffer_;
  std::size_t size_;
  std::size_t length_ = 0;
};

}  // namespace pillion::shim
