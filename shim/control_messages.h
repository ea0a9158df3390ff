// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/pillion_abi.h"

namespace pillion::shim {

// What a packet from a peer is worth. It was copied out of the socket, so it cannot change while it is looked
// at.
enum class Verdict : std::uint8_t {
  sound,    // as long as its type needs: read the whole struct
  unknown,  // a type of a newer minor version: skip it
  bad,      // this message cannot be used; the ones behind it can
  version,  // another major: say so and hang up
  garbage,  // not our protocol: say so and hang up
};

// Everything but `sound` and `unknown` comes with the text for REFUSED.
[[nodiscard]] Verdict check_message(const void* packet, std::size_t bytes, char (&problem)[192]);

// The limits of what ARM may ask. Null, or the field that is out of range.
[[nodiscard]] const char* check_arm(const pillion_arm& arm);

}  // namespace pillion::shim
