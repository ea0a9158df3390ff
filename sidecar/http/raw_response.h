// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "http/service_error.h"

namespace pillion::http {

// A whole HTTP/1.1 response with Connection: close, for what is refused before there is a request to answer.
[[nodiscard]] std::string raw_error_response(const ServiceError& error);

}  // namespace pillion::http
