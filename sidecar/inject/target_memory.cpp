// SPDX-License-Identifier: Apache-2.0
#include "inject/target_memory.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>

namespace pillion::inject {

bool TargetMemory::read(std::uint64_t address, void* to, std::size_t bytes) const {
  const iovec here{to, bytes};
  const iovec there{reinterpret_cast<void*>(address), bytes};
  return ::process_vm_readv(thread_, &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes);
}

std::string TargetMemory::read_text(std::uint64_t address, std::size_t bytes_max) const {
  std::string text;
  std::array<char, 64> piece;
  while (text.size() < bytes_max) {
    // Never across a page's end, behind which there may be nothing.
    const std::size_t in_page = 4'096 - address % 4'096;
    const std::size_t wanted = std::min({piece.size(), in_page, bytes_max - text.size()});
    if (!read(address, piece.data(), wanted)) return {};
    const auto stop = piece.cbegin() + static_cast<std::ptrdiff_t>(wanted);
    const auto end = std::find(piece.cbegin(), stop, '\0');
    text.append(piece.cbegin(), end);
    if (end != stop) return text;
    address += wanted;
  }
  return {};
}

}  // namespace pillion::inject
