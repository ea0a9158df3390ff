// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "abi/pillion_abi.h"
#include "base/result.h"
#include "base/unique_fd.h"

// The system calls of the control socket.
namespace pillion::session {

// unix(7), SO_PEERCRED: of whoever called listen(), as this process sees them.
struct PeerCredentials {
  std::uint32_t pid = 0;  // 0: in a PID namespace that is not visible from here
  std::uint32_t uid = 0;
};

// Non-blocking SOCK_SEQPACKET to the socket at `path`, of any length, never through a symbolic link at its
// end; a path of '@' and a name is an abstract socket's. Error::number: ECONNREFUSED nobody listens, ENOENT
// gone, EAGAIN backlog full, ENOTSOCK something else.
[[nodiscard]] Result<UniqueFd> connect_to(const std::string& path);

[[nodiscard]] Result<PeerCredentials> peer_credentials(int fd);

// Never blocks, never raises SIGPIPE. Error::number is EAGAIN when the peer does not read.
[[nodiscard]] Result<void> send_packet(int fd, std::span<const std::byte> packet, std::span<const int> fds);

struct Packet {
  std::span<const std::byte> bytes;  // in the reader, until its next receive()
  std::vector<UniqueFd> fds;         // close-on-exec
  bool cut = false;                  // longer than PILLION_MESSAGE_MAX
  bool fds_cut = false;              // more fds than PacketReader takes; the kernel closed the rest
};

class PacketReader {
 public:
  static constexpr std::size_t kFdsMax = 4;
  enum class Outcome : std::uint8_t { packet, nothing, end };

  PacketReader() : buffer_(PILLION_MESSAGE_MAX) {}
  // Never blocks. What the peer sent before it closed comes before `end`.
  [[nodiscard]] Outcome receive(int fd, Packet& packet);

 private:
  std::vector<std::byte> buffer_;
};

}  // namespace pillion::session
