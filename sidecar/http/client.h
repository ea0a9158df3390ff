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

// One GET. An address that stands for every address (0.0.0.0, ::) is asked on loopback. `timeout` bounds
// connecting and each read.
[[nodiscard]] Result<ClientReply> http_get(const ListenAddress& server, const std::string& path,
                                           std::chrono::milliseconds timeout);

}  // namespace pillion::http
