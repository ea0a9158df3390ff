// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace pillion::http {

// "127.0.0.1:7070", "localhost:7070", "[::1]:0", ":7070" (every address). Only numeric addresses and
// "localhost": a name that DNS decides is no place to listen.
struct ListenAddress {
  std::string host;  // numeric, without brackets
  std::uint16_t port = 0;

  [[nodiscard]] bool loopback() const;
  [[nodiscard]] std::string text() const;  // as in a URL
  bool operator==(const ListenAddress&) const = default;
};

[[nodiscard]] Result<ListenAddress> parse_listen_address(std::string_view text);

// A listening, non-blocking socket. Port 0 takes a free one: see bound_port(). No SO_REUSEPORT, so that a
// second program on the same port is told so.
[[nodiscard]] Result<UniqueFd> open_listener(const ListenAddress& address);
[[nodiscard]] Result<std::uint16_t> bound_port(const UniqueFd& listener);

// Whether a Host header can have come from somebody who meant this machine's loopback: localhost, 127.0.0.0/8
// or
// ::1 with any port, or none at all (HTTP/1.0 probes). A page that had its name rebound to 127.0.0.1 sends
// its own name instead.
[[nodiscard]] bool names_loopback(std::string_view host_header);

}  // namespace pillion::http
