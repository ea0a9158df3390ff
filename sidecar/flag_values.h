// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

// The words that flags take. Errors say what was given and what would do; the caller adds the flag's name.
namespace pillion {

// As Go's time.ParseDuration, without signs: "500ms", "20s", "1h30m", "1.5s", "0". Units ns, us, ms, s, m, h;
// at most ten years.
[[nodiscard]] Result<std::chrono::nanoseconds> parse_duration(std::string_view text);

// The shortest form that parse_duration reads back: "1m30s", "500ms".
[[nodiscard]] std::string format_duration(std::chrono::nanoseconds duration);

// A duration within the range, rounded to milliseconds; less than one but not none is out of range.
[[nodiscard]] Result<std::chrono::milliseconds> parse_duration_within(std::string_view text,
                                                                      std::chrono::milliseconds low,
                                                                      std::chrono::milliseconds high);

[[nodiscard]] Result<std::uint32_t> parse_whole_within(std::string_view text, std::uint32_t low,
                                                       std::uint32_t high);

// Also a power of two.
[[nodiscard]] Result<std::uint32_t> parse_power_of_two_within(std::string_view text, std::uint32_t low,
                                                              std::uint32_t high);

// "128MiB", "65536", "512KiB", "1GiB".
[[nodiscard]] Result<std::uint64_t> parse_bytes_within(std::string_view text, std::uint64_t low,
                                                       std::uint64_t high);

// "true", "false", "1", "0", "t", "f" as Go's flag package.
[[nodiscard]] Result<bool> parse_boolean(std::string_view text);

// Stores what `parsed` holds, or passes its error on.
template <typename T, typename Field>
Result<void> store(Result<T> parsed, Field& field) {
  if (!parsed) return tl::make_unexpected(parsed.error());
  field = *parsed;
  return {};
}

// A file's or folder's name: anything but nothing.
[[nodiscard]] Result<void> store_name(const std::string& text, std::string& field);

}  // namespace pillion
