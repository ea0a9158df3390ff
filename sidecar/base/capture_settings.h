// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "abi/pillion_abi.h"
#include "base/result.h"

// What a shim is told when it is armed, and what it says is in force.
namespace pillion {

struct CaptureSettings {
  std::uint32_t kinds = PILLION_KIND_ALL;   // enum pillion_kinds
  std::uint32_t sample_permyriad = 100;     // of the launching threads' time, 1/10,000
  std::uint32_t sample_mib_per_s = 64;      // of snapshots, for each process
  std::uint32_t stack_bytes_max = 196'608;  // of one snapshot
  std::uint32_t lease_ms = 5'000;           // the shim disarms when it hears nothing for so long
  bool finalize = true;                     // CUPTI at detach, where the program survives it
  std::uint32_t events_rings = 16;
  std::uint32_t events_ring_bytes = 1u << 20;
  std::uint32_t stacks_rings = 8;
  std::uint32_t stacks_ring_bytes = 2u << 20;

  bool operator==(const CaptureSettings&) const = default;
};

// What one request wants otherwise than the sidecar's flags say; unset: whatever holds.
struct SettingsWish {
  std::optional<std::uint32_t> kinds;
  std::optional<std::uint32_t> sample_permyriad;
  std::optional<std::uint32_t> sample_mib_per_s;
  std::optional<std::uint32_t> stack_bytes_max;

  [[nodiscard]] bool any() const { return kinds || sample_permyriad || sample_mib_per_s || stack_bytes_max; }
  [[nodiscard]] CaptureSettings applied_to(CaptureSettings settings) const;
};

// "kernel,memcpy,stacks" or "all"; at least one of kernel, memcpy and memset. The error says what there is.
[[nodiscard]] Result<std::uint32_t> parse_kinds(std::string_view text);

// The names, comma-separated, in the order of the bits; bits without a name by number.
[[nodiscard]] std::string kinds_text(std::uint32_t kinds);

// "1", "0.5", "2.25": percent with at most two decimals, above 0 and up to 100; returns 1/100 of a percent.
[[nodiscard]] Result<std::uint32_t> parse_permyriad(std::string_view text);

// "1", "0.5".
[[nodiscard]] std::string percent_text(std::uint32_t permyriad);

// Name and value of each, the name as that of the flag: {"sample-budget", "1"}.
[[nodiscard]] std::vector<std::pair<const char*, std::string>> settings_text(const CaptureSettings& settings);

// "stack-bytes is 4096, not 1024; ..."; empty when both are the same. Python frames are left out: most
// programs have no Python, and a shim says for itself, when it has looked, whether they are in force.
[[nodiscard]] std::string settings_difference(const CaptureSettings& in_force, const CaptureSettings& asked);

}  // namespace pillion
