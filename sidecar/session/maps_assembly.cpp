// SPDX-License-Identifier: Apache-2.0
#include "session/maps_assembly.h"

#include <utility>

namespace pillion::session {

MapsAssembly::Outcome MapsAssembly::add(MapsPiece piece) {
  if (piece.index == 0 && !(pending_ && pending_->generation == piece.generation)) {
    pending_ = MapsText{piece.generation, {}};
    next_index_ = 0;
    skipped_generation_.reset();
  } else if (!pending_) {
    return skipped_generation_ == piece.generation ? Outcome::repeated : Outcome::broken;
  }
  if (piece.generation != pending_->generation || piece.index > next_index_) {
    pending_.reset();
    skipped_generation_ = piece.generation;
    return Outcome::broken;
  }
  if (piece.index < next_index_) return Outcome::repeated;
  if (piece.text.size() > kBytesMax - pending_->text.size()) {
    pending_.reset();
    skipped_generation_ = piece.generation;
    return Outcome::too_large;
  }
  pending_->text += piece.text;
  ++next_index_;
  if (!piece.last) return Outcome::incomplete;
  skipped_generation_ = piece.generation;  // whatever of it still comes is a repetition
  done_ = std::exchange(pending_, std::nullopt);
  return Outcome::complete;
}

std::optional<MapsText> MapsAssembly::take() { return std::exchange(done_, std::nullopt); }

}  // namespace pillion::session
