// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "http/access.h"
#include "http/listen_address.h"
#include "http/profile_service.h"
#include "http/static_file.h"

namespace pillion::http {

struct ServerConfig {
  ListenAddress listen{"127.0.0.1", 7070, {}};
  std::vector<std::string> allow_hosts = {};  // further names that Host may have, see access.h
  std::optional<TokenFile> token;             // what every request to `listen` has to carry
  mode_t unix_mode = 0600;                    // of unix sockets
  std::optional<ListenAddress>
      health_listen;  // /healthz, /readyz and /metrics alone, with threads of its own
  std::size_t windows_max = 16;
  std::span<const StaticFile> page;  // as in RouterConfig
};

// The HTTP side of the sidecar. `service` outlives it. Threads: one that watches the connections of each
// listener, windows_max + 4 that serve requests, 2 for the health listener.
class Server {
 public:
  // Listens when it returns. Logs the addresses, with the port that was chosen for port 0.
  static Result<std::unique_ptr<Server>> create(const ServerConfig& config, ProfileService& service);
  virtual ~Server() = default;

  [[nodiscard]] virtual std::uint16_t port() const = 0;
  [[nodiscard]] virtual std::uint16_t health_port() const = 0;  // 0 without one, and on a unix socket

  // Ends windows that are open (their clients still get what they hold) and closes every connection. Takes
  // less than 1.5 s if the service answers within 0.5 s of its stop token. Idempotent.
  virtual void stop() = 0;
};

}  // namespace pillion::http
