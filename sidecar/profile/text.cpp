// SPDX-License-Identifier: Apache-2.0
#include "profile/text.h"

#include <algorithm>
#include <cstdint>

namespace pillion::profile {
namespace {

// Bytes of the valid character at the front, 0 when there is none.
std::size_t character(std::string_view s) {
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(s[i]); };
  const std::uint8_t first = at(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || s.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  const std::uint8_t second = at(1);
  if (first == 0xe0 && second < 0xa0) return 0;
  if (first == 0xed && second > 0x9f) return 0;
  if (first == 0xf0 && second < 0x90) return 0;
  if (first == 0xf4 && second > 0x8f) return 0;
  return length;
}

}  // namespace

std::string clean_text(std::string_view bytes, std::size_t bytes_max) {
  static constexpr std::string_view kReplacement = "\xef\xbf\xbd";
  static constexpr std::string_view kCut = "...";
  std::string out;
  out.reserve(std::min(bytes.size(), bytes_max));
  while (!bytes.empty()) {
    const std::size_t length = character(bytes);
    std::string_view piece = length == 0 ? kReplacement : bytes.substr(0, length);
    if (length == 1 && (static_cast<std::uint8_t>(bytes[0]) < 0x20 || bytes[0] == 0x7f)) piece = " ";
    bytes.remove_prefix(length == 0 ? 1 : length);
    if (out.size() + piece.size() > bytes_max) {
      std::size_t end = std::min(out.size(), bytes_max - kCut.size());
      while (end > 0 && end < out.size() && (static_cast<std::uint8_t>(out[end]) & 0xc0) == 0x80) --end;
      out.resize(end);
      return out += kCut;
    }
    out += piece;
  }
  return out;
}

TextId TextTable::id(std::string_view text) {
  const auto found = ids_.find(text);
  if (found != ids_.end()) return found->second;
  std::string clean = bytes_ < kTextsBytesMax ? clean_text(text) : "[text dropped]";
  const auto same = ids_.find(clean);
  if (same != ids_.end()) return same->second;
  const auto made = static_cast<TextId>(texts_.size());
  ids_.emplace(clean, made);
  bytes_ += clean.size();
  texts_.push_back(std::move(clean));
  return made;
}

}  // namespace pillion::profile
