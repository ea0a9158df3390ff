// SPDX-License-Identifier: Apache-2.0
#include "http/raw_response.h"

namespace pillion::http {

std::string raw_error_response(const ServiceError& error) {
  const auto body = error_body(error);
  return "HTTP/1.1 " + std::to_string(http_status(error.code)) + " " + to_string(error.code) +
         "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nConnection: close\r\n\r\n" + body;
}

}  // namespace pillion::http
