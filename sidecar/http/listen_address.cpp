// SPDX-License-Identifier: Apache-2.0
#include "http/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace pillion::http {
namespace {

constexpr int kBacklog = 512;
constexpr std::string_view kUnix = "unix:";
constexpr std::size_t kPathMax = sizeof(sockaddr_un::sun_path) - 1;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

std::optional<SocketAddress> to_socket_address(const ListenAddress& from) {
  SocketAddress address;
  if (from.is_unix()) {
    auto* unix_address = reinterpret_cast<sockaddr_un*>(&address.storage);
    unix_address->sun_family = AF_UNIX;
    from.path.copy(unix_address->sun_path, kPathMax);  // the storage is all zero
    address.length = sizeof(sockaddr_un);
    return address;
  }
  const auto& [host, port, path] = from;
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

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return result;
}

Result<ListenAddress> parse_unix_address(std::string_view path) {
  if (!path.starts_with('/') || path.size() > kPathMax || path.find('\0') != std::string_view::npos) {
    return fail("parse address", std::string(kUnix) + std::string(path),
                "not unix: and an absolute path of at most " + std::to_string(kPathMax) +
                    " bytes, e.g. unix:/run/pillion/http.sock");
  }
  return ListenAddress{{}, 0, std::string(path)};
}

// A socket that nobody listens on any more is removed; whatever else is in the way stays.
Result<void> clear_path(const ListenAddress& address) {
  struct stat file {};
  if (::lstat(address.path.c_str(), &file) != 0) return {};
  if (!S_ISSOCK(file.st_mode)) {
    return fail("listen on", address.text(), "there is a file of that name that is no socket");
  }
  const auto target = to_socket_address(address);
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!probe.valid()) return fail_errno("open a socket for", address.text());
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&target->storage), target->length) == 0 ||
      errno == EAGAIN) {
    return fail("listen on", address.text(), "another program listens there");
  }
  if (errno != ECONNREFUSED || ::unlink(address.path.c_str()) != 0) {
    return fail_errno("replace the socket", address.path);
  }
  return {};
}

}  // namespace

bool ListenAddress::local() const { return is_unix() || host == "::1" || host.starts_with("127."); }

std::string ListenAddress::url() const { return (is_unix() ? "" : "http://") + text(); }

std::string ListenAddress::text() const {
  if (is_unix()) return std::string(kUnix) + path;
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::optional<HostPort> split_host_port(std::string_view text) {
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

Result<ListenAddress> parse_listen_address(std::string_view text) {
  if (text.starts_with(kUnix)) return parse_unix_address(text.substr(kUnix.size()));
  const auto form =
      "not ADDRESS:PORT with a numeric address, e.g. 127.0.0.1:7070 or [::1]:7070, nor unix:/PATH";
  const auto parts = split_host_port(text);
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
  if (!to_socket_address(address)) return fail("parse address", std::string(text), form);
  return address;
}

Result<UniqueFd> open_listener(const ListenAddress& address, mode_t unix_mode) {
  const auto target = to_socket_address(address);
  if (!target) return fail("parse address", address.text(), "not a numeric address");
  if (address.is_unix()) {
    if (auto cleared = clear_path(address); !cleared) return tl::make_unexpected(cleared.error());
  }
  UniqueFd fd(::socket(target->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fail_errno("open a socket for", address.text());
  const int on =
      1;  // a restart must not wait for TIME_WAIT; on Linux this does not let two programs share a port
  if (!address.is_unix() && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
    return fail_errno("set SO_REUSEADDR on", address.text());
  }
  // Between the two nobody can connect, whatever the umask has made of the file's mode.
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&target->storage), target->length) != 0 ||
      (address.is_unix() && ::chmod(address.path.c_str(), unix_mode) != 0) ||
      ::listen(fd.get(), kBacklog) != 0) {
    return fail_errno("listen on", address.text());
  }
  return fd;
}

Result<UniqueFd> connect_to(const ListenAddress& address, std::chrono::milliseconds timeout) {
  ListenAddress asked = address;
  if (asked.host == "0.0.0.0") asked.host = "127.0.0.1";
  if (asked.host == "::") asked.host = "::1";
  const auto target = to_socket_address(asked);
  if (!target) return fail("connect to", asked.text(), "not a numeric address");
  UniqueFd fd(::socket(target->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fail_errno("open a socket for", asked.text());
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timeval limit{whole.count(), std::chrono::microseconds(timeout - whole).count()};
  // Linux takes SO_SNDTIMEO for connect(), too.
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
      ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&target->storage), target->length) != 0) {
    return fail_errno("connect to", asked.url());
  }
  return fd;
}

Result<std::uint16_t> bound_port(const UniqueFd& listener) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    return fail_errno("getsockname", "listener");
  }
  if (storage.ss_family == AF_UNIX) return 0;
  if (storage.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port);
  return ntohs(reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
}

}  // namespace pillion::http
