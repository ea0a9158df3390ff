// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/pillion_abi.h"
#include "control_socket.h"
#include "owned_fd.h"

namespace pillion::shim {

inline constexpr int kMessageFds = 3;

// One received packet. The descriptors stay open until close_attached().
struct IncomingMessage {
  alignas(8) std::uint8_t bytes[PILLION_MESSAGE_MAX] = {};
  std::size_t size = 0;
  int fds[kMessageFds] = {-1, -1, -1};
};

void close_attached(IncomingMessage* in);

enum class Receive : std::uint8_t { message, nothing, gone };

// The connected sidecar. Never blocks: what cannot be sent now waits in a bounded queue, and a peer that lets
// the queue overflow counts as gone. Control thread only.
class PeerConnection {
 public:
  void take(OwnedFd fd, const PeerCredentials& who);
  // Ends the connection for every holder of a copy of it, also for children that were forked at a bad moment.
  void close();

  [[nodiscard]] bool open() const { return fd_.valid(); }
  [[nodiscard]] const PeerCredentials& who() const { return who_; }
  // For poll(); negative when the program closed it behind our back, or none is open.
  [[nodiscard]] int fd();
  [[nodiscard]] bool wants_to_write() const { return count_ > 0 || !maps_sent(); }
  [[nodiscard]] bool broken() const { return broken_; }
  // Whether the other end has closed, with or without packets that we have not read.
  [[nodiscard]] bool hung_up();

  [[nodiscard]] Receive receive(IncomingMessage* in);

  // `header` begins a message whose type and size are already set. `attached` is closed when it has been
  // sent.
  void send(const void* message, std::size_t size, int attached = -1);

  // Cuts the text into MAPS messages, sent as the peer takes them, behind what is queued. The text must stay
  // until maps_sent() is true; a null text with 0 bytes says "unchanged".
  void send_maps(const char* text, std::size_t bytes, std::uint32_t generation);
  [[nodiscard]] bool maps_sent() const { return maps_left_ == 0 && !maps_empty_; }

  // Goes on sending: when poll() says so.
  void pump();

  // In a forked child.
  void close_in_child() { fd_.close(); }

 private:
  enum class Sent : std::uint8_t { yes, later, failed };
  struct Queued {
    std::uint32_t size;
    int attached;
    std::uint8_t bytes[640];
  };
  static constexpr std::uint32_t kQueueMax = 32;

  [[nodiscard]] Sent send_now(const void* head, std::size_t head_bytes, const void* tail,
                              std::size_t tail_bytes, int attached);
  void pump_maps();
  void drop_queue();

  OwnedFd fd_;
  PeerCredentials who_{};
  bool broken_ = false;
  Queued queue_[kQueueMax]{};
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
  const char* maps_text_ = nullptr;
  std::size_t maps_left_ = 0;
  bool maps_empty_ = false;  // an empty answer is still to be sent
  std::uint32_t maps_index_ = 0;
  std::uint32_t maps_generation_ = 0;
};

// Fills in magic, version, type and size.
void begin_message(pillion_message_header* header, std::uint32_t type, std::size_t size);

// Sends one message to a connection that will not be kept, and closes it.
void answer_and_close(OwnedFd peer, const void* message, std::size_t size);

// A REFUSED that is ready to send. `text` is cut at 255 bytes.
[[nodiscard]] pillion_refused make_refused(std::uint32_t reason, std::uint64_t generation, const char* text);

}  // namespace pillion::shim
