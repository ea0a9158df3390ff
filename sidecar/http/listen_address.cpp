// SPDX-License-Identifier: Apache-2.0
#include "http/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

namespace pillion::http {
namespace {

constexpr int kBacklog = 512;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

std::optional<SocketAddress> to_socket_address(const std::string& host, std::uint16_t port) {
  SocketAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  if (::inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.length = sizeof(sockaddr_in);
    return address;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    address.length = sizeof(sockaddr_in6);
    return address;
  }
  return std::nullopt;
}

// Splits "host:port"; brackets around an IPv6 host are taken off. A missing port is an empty one.
struct HostPort {
  std::string_view host;
  std::string_view port;
  bool has_port = false;
};

std::optional<HostPort> split(std::string_view text) {
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    const auto rest = text.substr(close + 1);
    if (rest.empty()) return HostPort{text.substr(1, close - 1), {}, false};
    if (!rest.starts_with(':')) return std::nullopt;
    return HostPort{text.substr(1, close - 1), rest.substr(1), true};
  }
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return HostPort{text, {}, false};
  if (text.find(':', colon + 1) != std::string_view::npos) return std::nullopt;
  return HostPort{text.substr(0, colon), text.substr(colon + 1), true};
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return result;
}

}  // namespace

bool ListenAddress::loopback() const { return host == "::1" || host.starts_with("127."); }

std::string ListenAddress::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<ListenAddress> parse_listen_address(std::string_view text) {
  const auto form = "not ADDRESS:PORT with a numeric address, e.g. 127.0.0.1:7070 or [::1]:7070";
  const auto parts = split(text);
  if (!parts || !parts->has_port) return fail("parse address", std::string(text), form);

  ListenAddress address;
  const char* end = parts->port.data() + parts->port.size();
  const auto [rest, error] = std::from_chars(parts->port.data(), end, address.port);
  if (parts->port.empty() || error != std::errc() || rest != end) {
    return fail("parse address", std::string(text), "not an address with a port from 0 to 65535");
  }
  address.host = lower(parts->host);
  if (address.host.empty()) address.host = "0.0.0.0";
  if (address.host == "localhost") address.host = "127.0.0.1";
  if (!to_socket_address(address.host, address.port)) return fail("parse address", std::string(text), form);
  return address;
}

Result<UniqueFd> open_listener(const ListenAddress& address) {
  const auto target = to_socket_address(address.host, address.port);
  if (!target) return fail("parse address", address.text(), "not a numeric address");
  UniqueFd fd(::socket(target->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fail_errno("open a socket for", address.text());
  const int on =
      1;  // a restart must not wait for TIME_WAIT; on Linux this does not let two programs share a port
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
    return fail_errno("set SO_REUSEADDR on", address.text());
  }
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&target->storage), target->length) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return fail_errno("listen on", address.text());
  }
  return fd;
}

Result<std::uint16_t> bound_port(const UniqueFd& listener) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    return fail_errno("getsockname", "listener");
  }
  if (storage.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port);
  return ntohs(reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
}

bool names_loopback(std::string_view host_header) {
  if (host_header.empty()) return true;
  const auto parts = split(host_header);
  if (!parts) return false;
  const auto host = lower(parts->host);
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return host == "localhost" || host == "::1";
}

}  // namespace pillion::http
