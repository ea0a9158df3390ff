// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace pillion::shim {

// Builds a NUL-terminated line in somebody else's array and cuts what does not fit. No stdio, no allocation.
class BoundedText {
 public:
  template <std::size_t N>
  explicit BoundedText(char (&array)[N]) : BoundedText(array, N) {}
  BoundedText(char* array, std::size_t capacity) : text_(array), capacity_(capacity) { text_[0] = '\0'; }

  BoundedText& add(const char* text) {
    while (*text != '\0' && length_ + 1 < capacity_) text_[length_++] = *text++;
    text_[length_] = '\0';
    return *this;
  }

  BoundedText& add(const char* text, std::size_t bytes) {
    while (bytes-- > 0 && length_ + 1 < capacity_) text_[length_++] = *text++;
    text_[length_] = '\0';
    return *this;
  }

  BoundedText& add(std::uint64_t number) {
    char digits[21];
    std::size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do {
      digits[--at] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    return add(digits + at);
  }

  [[nodiscard]] std::size_t length() const { return length_; }
  [[nodiscard]] bool full() const { return length_ + 1 >= capacity_; }

 private:
  char* text_;
  std::size_t capacity_;
  std::size_t length_ = 0;
};

}  // namespace pillion::shim
