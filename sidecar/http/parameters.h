// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "http/profile_service.h"
#include "http/service_error.h"

namespace pillion::http {

// Decoded query parameters in the order of the query, repetitions kept.
using Parameters = std::vector<std::pair<std::string, std::string>>;

// Refuses a parameter that is not in `known`, or that comes twice. The message names it and lists what is
// known.
[[nodiscard]] tl::expected<void, ServiceError> check_names(const Parameters& parameters,
                                                           std::span<const std::string_view> known);

// The request that a query asks for. `fixed_type`: the path already says the type, so `type` is not a
// parameter.
[[nodiscard]] tl::expected<ProfileRequest, ServiceError> parse_profile_request(const Parameters& parameters,
                                                                               const ProfileType* fixed_type);

}  // namespace pillion::http
