// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "abi/pillion_abi.h"
#include "shared_region.h"

namespace pillion::shim::test {

struct Message {
  std::vector<std::uint8_t> bytes;
  int fd = -1;
  [[nodiscard]] std::uint32_t type() const {
    return bytes.size() < sizeof(pillion_message_header)
               ? 0
               : reinterpret_cast<const pillion_message_header*>(bytes.data())->type;
  }
};

// The sidecar's end of a connection, which can also lie.
class Peer {
 public:
  explicit Peer(const std::string& path);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  [[nodiscard]] bool connected() const { return fd_ >= 0; }
  void send_bytes(const void* bytes, std::size_t size, const std::vector<int>& fds = {});
  template <typename T>
  void send(std::uint32_t type, T message, const std::vector<int>& fds = {}) {
    message.header = {PILLION_ABI_MAGIC, PILLION_ABI_MAJOR, PILLION_ABI_MINOR, type, sizeof message};
    send_bytes(&message, sizeof message, fds);
  }

  // The next packet; type 0 when the connection has ended; throws after `ms`.
  Message receive(int ms = 10'000);
  // Whether a packet or the end is there now.
  [[nodiscard]] bool readable(int ms) const;
  [[nodiscard]] bool ended() { return receive().type() == 0; }

  // The next message that is not MAPS or PYTHON, which must be of this type. MAPS texts are gathered in
  // maps().
  template <typename T>
  T expect(std::uint32_t type, int ms = 10'000, int* fd = nullptr) {
    for (;;) {
      const Message message = receive(ms);
      if (message.type() == PILLION_MAPS && type != PILLION_MAPS) {
        gather(message);
        continue;
      }
      if (message.type() == PILLION_PYTHON && type != PILLION_PYTHON) continue;
      if (message.type() != type || message.bytes.size() < sizeof(T)) {
        throw std::runtime_error("expected message " + std::to_string(type) + ", got " +
                                 std::to_string(message.type()));
      }
      T out{};
      std::memcpy(&out, message.bytes.data(), sizeof out);
      if (fd != nullptr) *fd = message.fd;
      return out;
    }
  }

  // Reads MAPS pieces to the last one of a text. Checks numbers and bounds.
  std::string expect_maps(std::uint32_t* generation = nullptr);
  void gather(const Message& piece);
  [[nodiscard]] const std::string& maps() const { return maps_; }
  [[nodiscard]] std::uint32_t maps_generation() const { return maps_generation_; }

  void close();

 private:
  int fd_ = -1;
  std::string maps_;
  std::string pieces_;
  std::uint32_t next_piece_ = 0;
  std::uint32_t maps_generation_ = 0;
  std::uint32_t complete_ = 0;
};

// The three regions of a session and the ARM that goes with them.
struct SessionOffer {
  SharedRegion events;
  SharedRegion stacks;
  SharedRegion arena;
  pillion_arm arm{};

  explicit SessionOffer(std::uint64_t generation, const RegionPlan& plan = {});
  [[nodiscard]] std::vector<int> fds() const { return {events.fd(), stacks.fd(), arena.fd()}; }
};

}  // namespace pillion::shim::test
