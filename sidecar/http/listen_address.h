// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace pillion::http {

// "127.0.0.1:7070", "localhost:7070", "[::1]:0", ":7070" (every address), "unix:/run/pillion.http". Only
// numeric addresses and "localhost": a name that DNS decides is no place to listen.
struct ListenAddress {
  std::string host;  // numeric, without brackets
  std::uint16_t port = 0;
  std::string path = {};  // of a unix socket, absolute; host and port mean nothing then

  [[nodiscard]] bool is_unix() const { return !path.empty(); }
  // No other machine reaches it.
  [[nodiscard]] bool local() const;
  [[nodiscard]] std::string text() const;  // as parse_listen_address() reads it
  [[nodiscard]] std::string url() const;   // for people: "http://127.0.0.1:7070", "unix:/run/pillion.http"
  bool operator==(const ListenAddress&) const = default;
};

[[nodiscard]] Result<ListenAddress> parse_listen_address(std::string_view text);

// "host:port" taken apart; brackets around an IPv6 host are taken off. Nothing when it is neither that nor a
// host alone.
struct HostPort {
  std::string_view host;
  std::string_view port;
  bool has_port = false;
};
[[nodiscard]] std::optional<HostPort> split_host_port(std::string_view text);

// A listening, non-blocking socket. Port 0 takes a free one: see bound_port(). No SO_REUSEPORT, so that a
// second program on the same port is told so. `unix_mode`: the permissions of a unix socket, in force before
// anybody can connect; one that a program which has ended left behind is replaced, any other file is an
// error.
[[nodiscard]] Result<UniqueFd> open_listener(const ListenAddress& address, mode_t unix_mode = 0600);
[[nodiscard]] Result<std::uint16_t> bound_port(const UniqueFd& listener);  // 0 for a unix socket

// A connected, blocking socket; an address that stands for every address (0.0.0.0, ::) is asked on loopback.
// `timeout` bounds connecting, each read and each write.
[[nodiscard]] Result<UniqueFd> connect_to(const ListenAddress& address, std::chrono::milliseconds timeout);

}  // namespace pillion::http
