// SPDX-License-Identifier: Apache-2.0
#include "http/client.h"

#include <sys/socket.h>

#include <array>
#include <charconv>

namespace pillion::http {
namespace {

constexpr std::size_t kReplyMax = 64 << 20;
constexpr std::size_t kStatusAt = 9;  // behind "HTTP/1.1 "

tl::unexpected<Error> no_answer(const std::string& what) {
  const bool late = errno == EAGAIN || errno == EWOULDBLOCK;
  return late ? fail("GET", what, "no answer in time") : fail_errno("GET", what);
}

Result<ClientReply> parse(const std::string& text, const std::string& what) {
  const auto head = text.find("\r\n\r\n");
  ClientReply reply;
  const char* digits = text.data() + std::min(text.size(), kStatusAt);
  const auto [end, error] = std::from_chars(digits, text.data() + text.size(), reply.status);
  if (!text.starts_with("HTTP/1.") || head == std::string::npos || error != std::errc()) {
    return fail("GET", what, "what answers there is no pillion");
  }
  reply.body = text.substr(head + 4);
  return reply;
}

}  // namespace

Result<ClientReply> http_get(const ListenAddress& server, const std::string& path,
                             std::chrono::milliseconds timeout, const std::string& token) {
  const std::string what = server.url() + path;
  const auto fd = connect_to(server, timeout);
  if (!fd) return tl::make_unexpected(fd.error());
  std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
  if (!token.empty()) request += "Authorization: Bearer " + token + "\r\n";
  request += "\r\n";
  // A fresh socket's buffer takes a request of this size at once.
  if (::send(fd->get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return no_answer(what);
  }
  std::string text;
  std::array<char, 16384> buffer;
  while (true) {
    const auto got = ::recv(fd->get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return no_answer(what);
    if (got == 0) return parse(text, what);
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > kReplyMax) return fail("GET", what, "the answer is longer than 64 MiB");
  }
}

}  // namespace pillion::http
