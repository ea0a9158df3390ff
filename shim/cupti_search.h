// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Where CUPTI libraries may lie: what the process has mapped, and what is shipped next to the shim.
namespace pillion::shim {

struct CuptiCandidate {
  std::uint32_t cuda_version;  // by its folder or SONAME; minor 99 when only the major is known
  char path[256];
};

class CuptiCandidates {
 public:
  static constexpr std::size_t kMax = 24;

  // Drops what is past kMax or whose path is too long.
  void add(std::uint32_t cuda_version, const char* folder, const char* name);

  // The newest not above the driver first, then, oldest first, those above it but of its major (minor
  // versions are compatible both ways), then the rest, which cannot fit: to be named. driver_version 0:
  // newest first.
  void order_for(std::uint32_t driver_version);

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] const CuptiCandidate& operator[](std::size_t at) const { return entries_[at]; }

 private:
  CuptiCandidate entries_[kMax];
  std::size_t size_ = 0;
};

// The CUDA version in "12.8" or "12", 1000 * major + 10 * minor; 0 when it is none.
[[nodiscard]] std::uint32_t parse_cuda_version(const char* text);

// Whether a file of that name is a CUPTI library: libcupti.so, libcupti.so.*, or renamed as wheels do,
// libcupti-*.so*.
[[nodiscard]] bool is_cupti_name(const char* name);

// Path of a CUPTI library that is mapped now into `out` (at most `size` bytes); false when there is none.
[[nodiscard]] bool find_mapped_cupti(char* out, std::size_t size);

// Adds `folder`/libcupti.so.* and `folder`/cupti/<version>/libcupti.so.*.
void find_shipped_cupti(const char* folder, CuptiCandidates* out);

}  // namespace pillion::shim
