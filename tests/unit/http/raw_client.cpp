// SPDX-License-Identifier: Apache-2.0
#include "http/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

namespace pillion::http {

RawClient::RawClient(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const timeval limit{10, 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fd_.reset();
}

bool RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool RawClient::fill() {
  char buffer[16384];
  const auto got = ::recv(fd_.get(), buffer, sizeof buffer, 0);
  if (got <= 0) return false;
  received_.append(buffer, static_cast<std::size_t>(got));
  return true;
}

RawResponse RawClient::receive(bool head) {
  RawResponse response;
  std::size_t end = 0;
  while ((end = received_.find("\r\n\r\n")) == std::string::npos) {
    if (!fill()) return response;
  }
  std::string_view lines(received_.data(), end + 2);
  response.status = std::stoi(std::string(lines.substr(9, 3)));
  lines.remove_prefix(lines.find("\r\n") + 2);
  while (!lines.empty()) {
    const auto line = lines.substr(0, lines.find("\r\n"));
    const auto colon = line.find(": ");
    response.headers.emplace(line.substr(0, colon), line.substr(colon + 2));
    lines.remove_prefix(line.size() + 2);
  }
  received_.erase(0, end + 4);
  if (head) return response;
  const auto length = std::stoul(response.headers.at("Content-Length"));
  while (received_.size() < length) {
    if (!fill()) break;
  }
  response.body = received_.substr(0, length);
  received_.erase(0, length);
  return response;
}

RawResponse RawClient::get(std::string_view target) {
  if (!send(get_request(target))) return {};
  return receive();
}

void RawClient::half_close() { ::shutdown(fd_.get(), SHUT_WR); }

bool RawClient::at_end() {
  char byte = 0;
  return received_.empty() && ::recv(fd_.get(), &byte, 1, 0) == 0;
}

std::string get_request(std::string_view target) {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
}

}  // namespace pillion::http
