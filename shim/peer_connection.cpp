// SPDX-License-Identifier: Apache-2.0
#include "peer_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "bounded_text.h"
#include "maps_watch.h"
#include "shim_log.h"

namespace pillion::shim {
namespace {

constexpr std::size_t kPieceMax = 60 * 1024;
constexpr int kDrainMax = 64;

// Closing with unread packets would turn our last words into ECONNRESET on the other side.
void drain(int fd) {
  char byte;
  for (int i = 0; i<kDrainMax&& ::recv(fd, &byte, 1, MSG_DONTWAIT | MSG_TRUNC)> 0; ++i) {
  }
}

void take_fds(msghdr* message, IncomingMessage* in) {
  int taken = 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(message); c != nullptr; c = CMSG_NXTHDR(message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      if (taken < kMessageFds) {
        in->fds[taken++] = fd;
      } else {
        ::close(fd);
      }
    }
  }
}

}  // namespace

void close_attached(IncomingMessage* in) {
  for (int& fd : in->fds) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
}

void begin_message(pillion_message_header* header, std::uint32_t type, std::size_t size) {
  *header = {PILLION_ABI_MAGIC, PILLION_ABI_MAJOR, PILLION_ABI_MINOR, type, static_cast<std::uint32_t>(size)};
}

pillion_refused make_refused(std::uint32_t reason, std::uint64_t generation, const char* text) {
  pillion_refused refused{};
  begin_message(&refused.header, PILLION_REFUSED, sizeof refused);
  refused.generation = generation;
  refused.reason = reason;
  BoundedText(refused.text).add(text);
  return refused;
}

void answer_and_close(OwnedFd peer, const void* message, std::size_t size) {
  if (peer.still_ours()) {
    ::send(peer.number, message, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    drain(peer.number);
  }
  peer.close();
}

void PeerConnection::take(OwnedFd fd, const PeerCredentials& who) {
  fd_ = fd;
  who_ = who;
  broken_ = false;
  drop_queue();
}

void PeerConnection::close() {
  if (fd_.still_ours()) {
    drain(fd_.number);
    ::shutdown(fd_.number, SHUT_RDWR);
  }
  fd_.close();
  drop_queue();
}

int PeerConnection::fd() {
  if (!fd_.valid()) return -1;
  if (fd_.still_ours()) return fd_.number;
  log_line("the program closed the sidecar's connection");
  broken_ = true;
  return -1;
}

Receive PeerConnection::receive(IncomingMessage* in) {
  const int from = fd();
  if (from < 0) return Receive::gone;
  iovec part{in->bytes, sizeof in->bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMessageFds)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  close_attached(in);
  const ssize_t got = ::recvmsg(from, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Receive::nothing : Receive::gone;
  take_fds(&message, in);
  // An empty packet cannot be told from the end, and nobody sends one in earnest.
  if (got == 0) return Receive::gone;
  in->size = static_cast<std::size_t>(got);
  return Receive::message;
}

bool PeerConnection::hung_up() {
  pollfd peer{fd(), 0, 0};
  return broken_ || peer.fd < 0 || (::poll(&peer, 1, 0) > 0 && (peer.revents & (POLLHUP | POLLERR)) != 0);
}

PeerConnection::Sent PeerConnection::send_now(const void* head, std::size_t head_bytes, const void* tail,
                                              std::size_t tail_bytes, int attached) {
  const int to = fd();
  if (to < 0) return Sent::failed;
  iovec parts[2] = {{const_cast<void*>(head), head_bytes}, {const_cast<void*>(tail), tail_bytes}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = tail_bytes > 0 ? 2 : 1;
  if (attached >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &attached, sizeof attached);
  }
  const ssize_t sent = ::sendmsg(to, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0) return Sent::yes;
  return errno == EAGAIN || errno == EINTR ? Sent::later : Sent::failed;
}

void PeerConnection::send(const void* message, std::size_t size, int attached) {
  Sent result = Sent::later;
  if (broken_ || !open() || size > sizeof queue_[0].bytes) {
    result = Sent::failed;
  } else if (count_ == 0) {
    result = send_now(message, size, nullptr, 0, attached);
  }
  if (result == Sent::later && count_ < kQueueMax) {
    Queued& queued = queue_[(first_ + count_++) % kQueueMax];
    queued.size = static_cast<std::uint32_t>(size);
    queued.attached = attached;
    std::memcpy(queued.bytes, message, size);
    return;
  }
  if (result != Sent::yes) broken_ = true;
  if (attached >= 0) ::close(attached);
}

void PeerConnection::send_maps(const char* text, std::size_t bytes, std::uint32_t generation) {
  maps_text_ = text;
  maps_left_ = text == nullptr ? 0 : bytes;
  maps_empty_ = maps_left_ == 0;
  maps_index_ = 0;
  maps_generation_ = generation;
  pump();
}

void PeerConnection::pump() {
  while (count_ > 0 && !broken_) {
    Queued& queued = queue_[first_];
    const Sent result = send_now(queued.bytes, queued.size, nullptr, 0, queued.attached);
    if (result == Sent::later) return;
    if (result == Sent::failed) broken_ = true;
    if (queued.attached >= 0) ::close(queued.attached);
    queued.attached = -1;
    first_ = (first_ + 1) % kQueueMax;
    --count_;
  }
  pump_maps();
}

void PeerConnection::pump_maps() {
  while ((maps_left_ > 0 || maps_empty_) && !broken_) {
    std::size_t piece = whole_lines(maps_text_, maps_left_, kPieceMax);
    // No line is that long; should one be, the text ends here.
    const bool last = piece == maps_left_ || piece == 0;
    pillion_maps maps{};
    begin_message(&maps.header, PILLION_MAPS, sizeof maps + piece);
    maps.generation = maps_generation_;
    maps.index = maps_index_;
    maps.last = last ? 1 : 0;
    maps.bytes = static_cast<std::uint32_t>(piece);
    const Sent result = send_now(&maps, sizeof maps, maps_text_, piece, -1);
    if (result == Sent::later) return;
    if (result == Sent::failed) broken_ = true;
    maps_text_ += piece;
    maps_left_ = last ? 0 : maps_left_ - piece;
    maps_empty_ = false;
    ++maps_index_;
  }
}

void PeerConnection::drop_queue() {
  for (; count_ > 0; --count_) {
    if (queue_[first_].attached >= 0) ::close(queue_[first_].attached);
    first_ = (first_ + 1) % kQueueMax;
  }
  maps_text_ = nullptr;
  maps_left_ = 0;
  maps_empty_ = false;
}

}  // namespace pillion::shim
