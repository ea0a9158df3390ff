// SPDX-License-Identifier: Apache-2.0
#include "http/client.h"

#include <httplib.h>

namespace pillion::http {

Result<ClientReply> http_get(const ListenAddress& server, const std::string& path,
                             std::chrono::milliseconds timeout) {
  std::string host = server.host;
  if (host == "0.0.0.0") host = "127.0.0.1";
  if (host == "::") host = "::1";
  httplib::Client client(host, server.port);
  client.set_connection_timeout(timeout);
  client.set_read_timeout(timeout);
  const auto result = client.Get(path);
  if (!result) {
    return fail("GET", "http://" + ListenAddress{host, server.port}.text() + path,
                "no answer (" + httplib::to_string(result.error()) + ")");
  }
  return ClientReply{result->status, result->body};
}

}  // namespace pillion::http
