// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "profile/profile.h"

namespace pillion::profile {

inline constexpr std::size_t kTextBytesMax = 8192;
inline constexpr std::size_t kTextsBytesMax =
    64u << 20;  // of one profile; past it a new text reads "[text dropped]"

// Foreign bytes made fit for any reader: invalid UTF-8 (RFC 3629: overlong, surrogates, beyond U+10FFFF)
// becomes U+FFFD, control characters become spaces, and what is longer than `bytes_max` is cut between
// characters and ends in "...".
[[nodiscard]] std::string clean_text(std::string_view bytes, std::size_t bytes_max = kTextBytesMax);

// Interns cleaned texts into Profile::texts. One owner; `texts` must outlive it and be changed by it alone.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string>& texts) : texts_(texts) { ids_.emplace("", 0); }
  [[nodiscard]] TextId id(std::string_view text);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::vector<std::string>& texts_;
  std::size_t bytes_ = 0;
  std::unordered_map<std::string, TextId, Hash, std::equal_to<>> ids_;
};

}  // namespace pillion::profile
