// SPDX-License-Identifier: Apache-2.0
#include "session/peer_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace pillion::session {
namespace {

Result<UniqueFd> connect_socket(const sockaddr_un& address, std::size_t path_bytes, const std::string& path) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return fail_errno("make socket for", path);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path_bytes);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
    return fail_errno("connect", path);
  }
  return socket;
}

Result<UniqueFd> connect_to_abstract(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() > sizeof address.sun_path) return fail("connect", path, "the name is too long");
  std::memcpy(address.sun_path + 1, path.data() + 1, path.size() - 1);
  return connect_socket(address, path.size(), path);
}

}  // namespace

Result<UniqueFd> connect_to(const std::string& path) {
  if (path.starts_with('@')) return connect_to_abstract(path);
  // Through an O_PATH fd: what is checked is what is connected to, and the 107 bytes of sun_path do not
  // matter.
  const UniqueFd place(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!place.valid()) return fail_errno("connect", path);
  struct stat status {};
  if (::fstat(place.get(), &status) != 0) return fail_errno("connect", path);
  if (!S_ISSOCK(status.st_mode)) return tl::make_unexpected(Error{"connect", path, ENOTSOCK, {}});

  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string link = "/proc/self/fd/" + std::to_string(place.get());
  std::memcpy(address.sun_path, link.c_str(), link.size() + 1);
  return connect_socket(address, link.size() + 1, path);
}

Result<PeerCredentials> peer_credentials(int fd) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return fail_errno("read credentials of", "peer");
  }
  return PeerCredentials{static_cast<std::uint32_t>(credentials.pid), credentials.uid};
}

Result<void> send_packet(int fd, std::span<const std::byte> packet, std::span<const int> fds) {
  iovec part{const_cast<std::byte*>(packet.data()), packet.size()};
  alignas(cmsghdr) std::byte control[CMSG_SPACE(PacketReader::kFdsMax * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  }
  if (::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return fail_errno("send", "packet");
  return {};
}

PacketReader::Outcome PacketReader::receive(int fd, Packet& packet) {
  packet = {};
  iovec part{buffer_.data(), buffer_.size()};
  alignas(cmsghdr) std::byte control[CMSG_SPACE(kFdsMax * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t got = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  // A peer that closed with our packets unread leaves this error in front of what it had sent; reading clears
  // it (net/unix/af_unix.c, unix_release_sock).
  if (got < 0 && errno == ECONNRESET) {
    message.msg_controllen = sizeof(control);
    got = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  }
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Outcome::nothing : Outcome::end;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
      int received = -1;
      std::memcpy(&received, CMSG_DATA(header) + at, sizeof(received));
      packet.fds.emplace_back(received);
    }
  }
  packet.cut = (message.msg_flags & MSG_TRUNC) != 0;
  packet.fds_cut = (message.msg_flags & MSG_CTRUNC) != 0;
  packet.bytes = std::span(buffer_).first(static_cast<std::size_t>(got));
  return got == 0 ? Outcome::end : Outcome::packet;
}

}  // namespace pillion::session
