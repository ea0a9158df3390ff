// SPDX-License-Identifier: Apache-2.0
#include "symbolize/function_ranges.h"

#include <cstdlib>

namespace pillion::symbolize {

std::optional<std::uint64_t> FunctionRanges::start_of(std::uint64_t address) {
  Dwarf_Frame* frame = nullptr;
  if (cfi_ == nullptr || dwarf_cfi_addrframe(cfi_.get(), address, &frame) != 0) return std::nullopt;
  Dwarf_Addr start = 0;
  const bool known = dwarf_frame_info(frame, &start, nullptr, nullptr) >= 0;
  std::free(frame);
  return known ? std::optional<std::uint64_t>(start) : std::nullopt;
}

}  // namespace pillion::symbolize
