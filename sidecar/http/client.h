// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "base/result.h"
#include "http/listen_address.h"

namespace pillion::http {

struct ClientReply {
  int status = 0;
  std::string body;
};

// One GET of a pillion's server, see connect_to(). `token`: sent as a bearer token, unless empty.
[[nodiscard]] Result<ClientReply> http_get(const ListenAddress& server, const std::string& path,
                                           std::chrono::milliseconds timeout, const std::string& token = {});

}  // namespace pillion::http
