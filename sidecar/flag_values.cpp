// SPDX-License-Identifier: Apache-2.0
#include "flag_values.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace pillion {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

// Longest first, so that "ms" is not read as "m".
constexpr std::array kDurationUnits = {Unit{"ns", 1},
                                       Unit{"us", 1'000},
                                       Unit{"ms", 1'000'000},
                                       Unit{"s", 1'000'000'000},
                                       Unit{"m", 60'000'000'000},
                                       Unit{"h", 3'600'000'000'000}};
constexpr std::array kByteUnits = {Unit{"KiB", 1ull << 10}, Unit{"MiB", 1ull << 20}, Unit{"GiB", 1ull << 30}};
constexpr double kDurationMax = 10.0 * 365 * 24 * 3.6e12;

tl::unexpected<Error> not_a(std::string_view text, const std::string& wanted) {
  return fail("read", "'" + std::string(text.substr(0, 64)) + "'", "not " + wanted);
}

// Takes a run of digits, with at most one point, off the front.
std::optional<double> take_decimal(std::string_view& text) {
  const auto length = std::min(text.find_first_not_of("0123456789."), text.size());
  double value = 0;
  const auto [rest, error] =
      std::from_chars(text.data(), text.data() + length, value, std::chars_format::fixed);
  if (length == 0 || error != std::errc() || rest != text.data() + length) return std::nullopt;
  text.remove_prefix(length);
  return value;
}

std::optional<std::uint64_t> take_duration_unit(std::string_view& text) {
  for (const auto& unit : kDurationUnits) {
    if (text.starts_with(unit.name)) {
      text.remove_prefix(unit.name.size());
      return unit.factor;
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> to_whole(std::string_view text) {
  std::uint64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string range_text(std::uint64_t low, std::uint64_t high) {
  return "from " + std::to_string(low) + " to " + std::to_string(high);
}

}  // namespace

Result<nanoseconds> parse_duration(std::string_view text) {
  const auto wanted = "a duration such as 500ms, 20s, 2m or 1h30m";
  if (text == "0") return nanoseconds(0);
  if (text.empty()) return not_a(text, wanted);
  double total = 0;
  for (auto rest = text; !rest.empty();) {
    const auto value = take_decimal(rest);
    if (!value) return not_a(text, wanted);
    const auto factor = take_duration_unit(rest);
    if (!factor) return not_a(text, wanted);
    total += *value * static_cast<double>(*factor);
    if (total > kDurationMax) return not_a(text, "a duration of at most ten years");
  }
  return nanoseconds(std::llround(total));
}

std::string format_duration(nanoseconds duration) {
  auto left = static_cast<std::uint64_t>(duration.count());
  if (left == 0) return "0s";
  std::string text;
  for (const auto& unit : {Unit{"h", 3'600'000'000'000}, Unit{"m", 60'000'000'000}, Unit{"s", 1'000'000'000},
                           Unit{"ms", 1'000'000}, Unit{"us", 1'000}, Unit{"ns", 1}}) {
    if (left < unit.factor) continue;
    text += std::to_string(left / unit.factor) + std::string(unit.name);
    left %= unit.factor;
  }
  return text;
}

Result<milliseconds> parse_duration_within(std::string_view text, milliseconds low, milliseconds high) {
  const auto duration = parse_duration(text);
  if (!duration) return tl::make_unexpected(duration.error());
  const bool vanishes = duration->count() > 0 && *duration < milliseconds(1);
  if (*duration < low || *duration > high || vanishes) {
    return not_a(text, "from " + format_duration(low) + " to " + format_duration(high));
  }
  return std::chrono::round<milliseconds>(*duration);
}

Result<std::uint32_t> parse_whole_within(std::string_view text, std::uint32_t low, std::uint32_t high) {
  const auto value = to_whole(text);
  if (!value || *value < low || *value > high) return not_a(text, "a whole number " + range_text(low, high));
  return static_cast<std::uint32_t>(*value);
}

Result<std::uint32_t> parse_power_of_two_within(std::string_view text, std::uint32_t low,
                                                std::uint32_t high) {
  const auto value = to_whole(text);
  if (!value || *value < low || *value > high || (*value & (*value - 1)) != 0) {
    return not_a(text, "a power of two " + range_text(low, high));
  }
  return static_cast<std::uint32_t>(*value);
}

Result<std::uint64_t> parse_bytes_within(std::string_view text, std::uint64_t low, std::uint64_t high) {
  auto digits = text;
  std::uint64_t factor = 1;
  for (const auto& unit : kByteUnits) {
    if (digits.ends_with(unit.name)) {
      digits.remove_suffix(unit.name.size());
      factor = unit.factor;
      break;
    }
  }
  const auto value = to_whole(digits);
  if (!value || *value > high / factor || *value * factor < low) {
    return not_a(text, "a size " + range_text(low, high) + " bytes (units KiB, MiB, GiB)");
  }
  return *value * factor;
}

Result<bool> parse_boolean(std::string_view text) {
  if (text == "true" || text == "1" || text == "t") return true;
  if (text == "false" || text == "0" || text == "f") return false;
  return not_a(text, "true or false");
}

Result<void> store_name(const std::string& text, std::string& field) {
  if (text.empty()) return fail("read", "''", "not a name");
  field = text;
  return {};
}

}  // namespace pillion
