// SPDX-License-Identifier: Apache-2.0
#include "http/parameters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace pillion::http {
namespace {

constexpr std::uint32_t kSecondsMax = 3600;
constexpr std::uint32_t kPidMax = 4'194'304;  // PID_MAX_LIMIT of 64-bit Linux
constexpr std::uint32_t kDeviceMax = 1023;
constexpr std::uint32_t kSampleMibMax = 65'536;
constexpr std::uint32_t kStackBytesMin = 1'024;
constexpr std::uint32_t kStackBytesMax = 1'048'576;
constexpr std::size_t kQuotedMax = 64;

// What came from outside is shortened before it goes into a message.
std::string quoted(std::string_view text) {
  if (text.size() <= kQuotedMax) return "'" + std::string(text) + "'";
  return "'" + std::string(text.substr(0, kQuotedMax)) + "...'";
}

ServiceError bad(std::string message, std::string hint) {
  return {ErrorCode::bad_parameter, std::move(message), std::move(hint)};
}

tl::expected<std::uint32_t, ServiceError> parse_number(const std::string& name, const std::string& text,
                                                       std::uint32_t low, std::uint32_t high) {
  std::uint32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || rest != end || value < low || value > high) {
    const std::string range = std::to_string(low) + " to " + std::to_string(high);
    return tl::make_unexpected(
        bad("parameter " + name + " is " + quoted(text) + ", not a whole number from " + range,
            "give " + name + " as a whole number from " + range));
  }
  return value;
}

std::string join(std::span<const std::string_view> words) {
  std::string text;
  for (const auto& word : words) {
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

bool is_heap(ProfileType type) { return type == ProfileType::heap || type == ProfileType::allocs; }

// What arming takes, under the names and with the ranges of the flags.
tl::expected<void, ServiceError> apply_wish(const std::string& name, const std::string& text,
                                            SettingsWish& wish) {
  if (name == "kinds" || name == "sample-budget") {
    const auto value = name == "kinds" ? parse_kinds(text) : parse_permyriad(text);
    if (!value)
      return tl::make_unexpected(
          bad("parameter " + name + " is " + value.error().object + ", " + value.error().detail,
              "as the flag -" + name));
    (name == "kinds" ? wish.kinds : wish.sample_permyriad) = *value;
  } else if (name == "sample-mib" || name == "stack-bytes") {
    const bool mib = name == "sample-mib";
    const auto value = mib ? parse_number(name, text, 1, kSampleMibMax)
                           : parse_number(name, text, kStackBytesMin, kStackBytesMax);
    if (!value) return tl::make_unexpected(value.error());
    (mib ? wish.sample_mib_per_s : wish.stack_bytes_max) = *value;
  }
  return {};
}

tl::expected<void, ServiceError> apply(const std::string& name, const std::string& text,
                                       ProfileRequest& request, bool& has_seconds) {
  if (name == "seconds") {
    const auto seconds = parse_number(name, text, 1, kSecondsMax);
    if (!seconds) return tl::make_unexpected(seconds.error());
    request.duration = std::chrono::seconds(*seconds);
    has_seconds = true;
  } else if (name == "pid") {
    const auto pid = parse_number(name, text, 1, kPidMax);
    if (!pid) return tl::make_unexpected(pid.error());
    request.pid = *pid;
  } else if (name == "device") {
    const auto device = parse_number(name, text, 0, kDeviceMax);
    if (!device) return tl::make_unexpected(device.error());
    request.device = *device;
  } else if (name == "type") {
    const auto type = parse_profile_type(text);
    if (!type) {
      return tl::make_unexpected(bad("parameter type is " + quoted(text) + ", not one of " + taken_types(),
                                     "the default is type=gpu"));
    }
    request.type = *type;
  } else if (name == "format") {
    const auto format = parse_profile_format(text);
    if (!format) {
      return tl::make_unexpected(
          bad("parameter format is " + quoted(text) + ", not one of pprof, json, folded",
              "the default is format=pprof"));
    }
    request.format = *format;
  } else {
    return apply_wish(name, text, request.wish);
  }
  return {};
}

}  // namespace

tl::expected<void, ServiceError> check_names(const Parameters& parameters,
                                             std::span<const std::string_view> known) {
  const std::string hint = known.empty() ? "this path takes no parameters" : "known here: " + join(known);
  for (auto it = parameters.begin(); it != parameters.end(); ++it) {
    if (std::find(known.begin(), known.end(), it->first) == known.end()) {
      return tl::make_unexpected(bad("unknown parameter " + quoted(it->first), hint));
    }
    // Scrapers add theirs once for each of their jobs.
    const auto differs = [&](const auto& earlier) {
      return earlier.first == it->first && earlier.second != it->second;
    };
    if (std::any_of(parameters.begin(), it, differs)) {
      return tl::make_unexpected(bad("parameter " + it->first + " is given twice", "give it once"));
    }
  }
  return {};
}

tl::expected<ProfileRequest, ServiceError> parse_profile_request(const Parameters& parameters,
                                                                 const ProfileType* fixed_type) {
  static constexpr std::array<std::string_view, 9> kAll = {
      "seconds", "format", "pid", "device", "kinds", "sample-budget", "sample-mib", "stack-bytes", "type"};
  const std::span<const std::string_view> known(kAll.data(),
                                                fixed_type == nullptr ? kAll.size() : kAll.size() - 1);
  if (auto names = check_names(parameters, known); !names) return tl::make_unexpected(names.error());

  ProfileRequest request;
  if (fixed_type != nullptr) request.type = *fixed_type;
  bool has_seconds = false;
  for (const auto& [name, text] : parameters) {
    if (auto applied = apply(name, text, request, has_seconds); !applied) {
      return tl::make_unexpected(applied.error());
    }
  }
  if (request.type == ProfileType::sync && request.device) {
    return tl::make_unexpected(
        bad("parameter device does not apply to type=sync",
            "a synchronisation call waits for a stream or a context: leave device out"));
  }
  if (request.wish.kinds) {
    if (const auto lacking = lacking_kinds(request.type, *request.wish.kinds); !lacking.empty()) {
      return tl::make_unexpected(bad(std::string("type=") + to_string(request.type) + " " + lacking,
                                     "add it to kinds, or leave kinds out: then the sidecar's own hold"));
    }
  }
  if (is_heap(request.type) && !has_seconds) request.duration = std::chrono::milliseconds(0);
  return request;
}

}  // namespace pillion::http
