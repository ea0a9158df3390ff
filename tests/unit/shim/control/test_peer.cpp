// SPDX-License-Identifier: Apache-2.0
#include "test_peer.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace pillion::shim::test {
namespace {

RegionPlan of_kind(RegionPlan plan, std::uint32_t kind, std::uint64_t generation) {
  plan.kind = kind;
  plan.generation = generation;
  return plan;
}

}  // namespace

Peer::Peer(const std::string& path) {
  fd_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) close();
}

Peer::~Peer() { close(); }

void Peer::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void Peer::send_bytes(const void* bytes, std::size_t size, const std::vector<int>& fds) {
  iovec part{const_cast<void*>(bytes), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 8)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(c), fds.data(), sizeof(int) * fds.size());
  }
  if (::sendmsg(fd_, &message, MSG_NOSIGNAL) < 0) throw std::runtime_error("send failed");
}

bool Peer::readable(int ms) const {
  pollfd watched{fd_, POLLIN, 0};
  return ::poll(&watched, 1, ms) > 0;
}

Message Peer::receive(int ms) {
  if (!readable(ms)) throw std::runtime_error("no message came");
  Message in;
  in.bytes.resize(PILLION_MESSAGE_MAX);
  iovec part{in.bytes.data(), in.bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(fd_, &message, MSG_CMSG_CLOEXEC);
  in.bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  if (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr && c->cmsg_type == SCM_RIGHTS) {
    std::memcpy(&in.fd, CMSG_DATA(c), sizeof in.fd);
  }
  if (in.type() != 0) {
    const auto* header = reinterpret_cast<const pillion_message_header*>(in.bytes.data());
    if (header->magic != PILLION_ABI_MAGIC || header->size != in.bytes.size())
      throw std::runtime_error("bad header");
  }
  return in;
}

void Peer::gather(const Message& piece) {
  pillion_maps maps{};
  if (piece.bytes.size() < sizeof maps) throw std::runtime_error("short MAPS");
  std::memcpy(&maps, piece.bytes.data(), sizeof maps);
  if (maps.bytes != piece.bytes.size() - sizeof maps) throw std::runtime_error("MAPS bytes");
  if (maps.bytes > 60 * 1024) throw std::runtime_error("MAPS piece too large");
  if (maps.index != next_piece_) throw std::runtime_error("MAPS index");
  const std::string text(reinterpret_cast<const char*>(piece.bytes.data()) + sizeof maps, maps.bytes);
  if (!text.empty() && text.back() != '\n') throw std::runtime_error("MAPS piece cut within a line");
  pieces_ += text;
  ++next_piece_;
  if (maps.last == 0) return;
  maps_ = pieces_;
  maps_generation_ = maps.generation;
  pieces_.clear();
  next_piece_ = 0;
  ++complete_;
}

std::string Peer::expect_maps(std::uint32_t* generation) {
  const std::uint32_t before = complete_;
  while (complete_ == before) {
    const Message message = receive();
    if (message.type() == PILLION_PYTHON) continue;
    if (message.type() != PILLION_MAPS) {
      throw std::runtime_error("expected MAPS, got " + std::to_string(message.type()));
    }
    gather(message);
  }
  if (generation != nullptr) *generation = maps_generation_;
  return maps_;
}

SessionOffer::SessionOffer(std::uint64_t generation, const RegionPlan& plan)
    : events(of_kind(plan, PILLION_REGION_EVENTS, generation)),
      stacks(of_kind(plan, PILLION_REGION_STACKS, generation)),
      arena(of_kind(plan, PILLION_REGION_ARENA, generation)) {
  arm.generation = generation;
  arm.lease_ms = 60'000;
  arm.kinds = PILLION_KIND_ALL;
  arm.sample_permyriad = 100;
  arm.sample_mib_per_s = 64;
  arm.stack_bytes_max = 196'608;
  arm.deadline_ms = 5'000;
  arm.events_bytes = events.bytes();
  arm.stacks_bytes = stacks.bytes();
  arm.arena_bytes = arena.bytes();
  arm.detach = PILLION_DISARM_FINALIZE;
}

}  // namespace pillion::shim::test
