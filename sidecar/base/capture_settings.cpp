// SPDX-License-Identifier: Apache-2.0
#include "base/capture_settings.h"

#include <algorithm>
#include <charconv>

namespace pillion {
namespace {

struct KindName {
  std::uint32_t bits;
  std::string_view name;
};

// Copies between devices are copies: which of both a call makes is known only when it has run.
constexpr std::uint32_t kCopies = PILLION_KIND_MEMCPY | PILLION_KIND_PEER_COPY;
constexpr KindName kKinds[] = {
    {PILLION_KIND_KERNEL, "kernel"}, {kCopies, "memcpy"},
    {PILLION_KIND_MEMSET, "memset"}, {PILLION_KIND_OVERHEAD, "overhead"},
    {PILLION_KIND_STACKS, "stacks"}, {PILLION_KIND_MODULES, "modules"},
    {PILLION_KIND_PYTHON, "python"}, {PILLION_KIND_SYNC, "sync"},
    {PILLION_KIND_CALLS, "calls"},
};
constexpr std::uint32_t kExecutions = PILLION_KIND_KERNEL | kCopies | PILLION_KIND_MEMSET;

std::string quoted(std::string_view text) {
  constexpr std::size_t kQuotedMax = 64;
  return "'" + std::string(text.substr(0, kQuotedMax)) + (text.size() > kQuotedMax ? "...'" : "'");
}

std::string all_names() {
  std::string names;
  for (const auto& kind : kKinds) names += (names.empty() ? "" : ", ") + std::string(kind.name);
  return names;
}

}  // namespace

CaptureSettings SettingsWish::applied_to(CaptureSettings settings) const {
  settings.kinds = kinds.value_or(settings.kinds);
  settings.sample_permyriad = sample_permyriad.value_or(settings.sample_permyriad);
  settings.sample_mib_per_s = sample_mib_per_s.value_or(settings.sample_mib_per_s);
  settings.stack_bytes_max = stack_bytes_max.value_or(settings.stack_bytes_max);
  return settings;
}

Result<std::uint32_t> parse_kinds(std::string_view text) {
  if (text == "all") return std::uint32_t{PILLION_KIND_ALL};
  std::uint32_t kinds = 0;
  std::string_view rest = text;
  while (true) {
    const auto comma = rest.find(',');
    const auto name = rest.substr(0, comma);
    const auto* const found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                           [name](const KindName& kind) { return kind.name == name; });
    if (found == std::end(kKinds)) {
      return fail("read", quoted(text), "not all, or some of " + all_names() + ", separated by commas");
    }
    kinds |= found->bits;
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if ((kinds & kExecutions) == 0) {
    return fail("read", quoted(text), "without any of kernel, memcpy and memset: nothing would be recorded");
  }
  return kinds;
}

std::string kinds_text(std::uint32_t kinds) {
  std::string text;
  const auto add = [&text](std::string_view name) { text += (text.empty() ? "" : ",") + std::string(name); };
  for (const auto& kind : kKinds) {
    const std::uint32_t had = kinds & kind.bits;
    if (had == kind.bits) {
      add(kind.name);
    } else if (had != 0) {  // a CUPTI that does not know the other one
      add(had == PILLION_KIND_MEMCPY ? "memcpy-on-one-device" : "memcpy-between-devices");
    }
  }
  if ((kinds & ~std::uint32_t{PILLION_KIND_ALL}) != 0) {
    add("number " + std::to_string(kinds & ~std::uint32_t{PILLION_KIND_ALL}));
  }
  return text.empty() ? "none" : text;
}

Result<std::uint32_t> parse_permyriad(std::string_view text) {
  const auto bad = [text] {
    return fail("read", quoted(text), "not a percentage from 0.01 to 100 with at most two decimals");
  };
  const auto point = text.find('.');
  const auto whole = text.substr(0, point);
  const auto decimals = point == std::string_view::npos ? std::string_view() : text.substr(point + 1);
  if ((whole.empty() && decimals.empty()) || whole.size() > 3) return bad();
  std::uint32_t value = 0;
  std::size_t places = 0;
  for (const char digit : whole) {
    if (digit < '0' || digit > '9') return bad();
    value = value * 10 + static_cast<std::uint32_t>(digit - '0');
  }
  for (const char digit : decimals) {
    if (digit < '0' || digit > '9' || (places >= 2 && digit != '0')) return bad();
    if (places++ < 2) value = value * 10 + static_cast<std::uint32_t>(digit - '0');
  }
  for (; places < 2; ++places) value *= 10;
  if (value < 1 || value > 10'000) return bad();
  return value;
}

std::string percent_text(std::uint32_t permyriad) {
  std::string text = std::to_string(permyriad / 100);
  const std::uint32_t decimals = permyriad % 100;
  if (decimals == 0) return text;
  text += "." + std::to_string(decimals / 10);
  if (decimals % 10 != 0) text += std::to_string(decimals % 10);
  return text;
}

std::vector<std::pair<const char*, std::string>> settings_text(const CaptureSettings& settings) {
  return {{"kinds", kinds_text(settings.kinds)},
          {"sample-budget", percent_text(settings.sample_permyriad)},
          {"sample-mib", std::to_string(settings.sample_mib_per_s)},
          {"stack-bytes", std::to_string(settings.stack_bytes_max)},
          {"events-rings", std::to_string(settings.events_rings)},
          {"events-ring-kib", std::to_string(settings.events_ring_bytes >> 10)},
          {"stacks-rings", std::to_string(settings.stacks_rings)},
          {"stacks-ring-kib", std::to_string(settings.stacks_ring_bytes >> 10)},
          {"lease", std::to_string(settings.lease_ms) + "ms"},
          {"finalize", settings.finalize ? "auto" : "never"}};
}

std::string settings_difference(const CaptureSettings& in_force, const CaptureSettings& asked) {
  std::string text;
  CaptureSettings with_wish = in_force;
  with_wish.kinds =
      (in_force.kinds & ~std::uint32_t{PILLION_KIND_PYTHON}) | (asked.kinds & PILLION_KIND_PYTHON);
  const auto is = settings_text(with_wish);
  const auto was_asked = settings_text(asked);
  for (std::size_t at = 0; at < is.size(); ++at) {
    if (is[at].second == was_asked[at].second) continue;
    text += (text.empty() ? "" : "; ") + std::string(is[at].first) + " is " + is[at].second + ", not " +
            was_asked[at].second;
  }
  return text;
}

}  // namespace pillion
