// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "session/messages.h"

namespace pillion::session {

struct MapsText {
  std::uint32_t generation = 0;
  std::string text;  // lines of /proc/self/maps
};

// Puts the pieces of a MAPS answer together. Pieces come in order; a first piece (index 0) always begins
// anew.
class MapsAssembly {
 public:
  static constexpr std::size_t kBytesMax = 16u << 20;

  enum class Outcome : std::uint8_t {
    incomplete,
    complete,  // take() has it
    repeated,  // a piece that was there already: ignored
    broken,    // a piece is missing: all of it dropped, ask again
    too_large  // past kBytesMax: dropped, and so are its further pieces
  };
  Outcome add(MapsPiece piece);

  // The text of the answer that was complete last; once.
  [[nodiscard]] std::optional<MapsText> take();

 private:
  std::optional<MapsText> pending_;  // in the making
  std::uint32_t next_index_ = 0;
  std::optional<MapsText> done_;
  std::optional<std::uint32_t>
      skipped_generation_;  // complete or dropped: pieces that still come are ignored
};

}  // namespace pillion::session
