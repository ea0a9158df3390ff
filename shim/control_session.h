// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/pillion_abi.h"
#include "control_socket.h"
#include "peer_connection.h"
#include "process_state.h"
#include "session_memory.h"

namespace pillion::shim {

struct ControlConfig {
  ProcessIdentity self;
  AccessLists access;
  bool eager;  // PILLION_EAGER=1
  bool late;   // loaded by somebody else than cuInit
};

// Where capture stands. Whether a sidecar is connected is the other half of the state; with none and asleep
// the shim is alone.
enum class CaptureState : std::uint8_t {
  asleep,
  arming,    // the capture thread is inside capture_arm(), within its deadline
  armed,     // the lease runs
  draining,  // disarm is ordered; DISARMED follows
  undoing,   // arming missed its deadline; when it returns it is undone without a word
};

// The one owner of the shim's state. Control thread only; nothing in it blocks.
class ControlSession {
 public:
  void configure(const ControlConfig& config) { config_ = config; }

  // A connection came in: it becomes the peer, or is told why not.
  void connect(OwnedFd fd, const PeerCredentials& who);

  // Reads what the peer has sent, up to a bound.
  void on_readable();

  // Deadlines, leases, answers of the capture thread. Often and cheap.
  void advance(std::uint64_t now);

  // How long poll() may sleep, in ms; negative: for ever.
  [[nodiscard]] int patience_ms(std::uint64_t now) const;

  // The process is ending: flush, disarm, tell the peer. Done when asleep() again.
  void begin_exit();

  [[nodiscard]] bool asleep() const { return state_ == CaptureState::asleep; }
  [[nodiscard]] PeerConnection& peer() { return peer_; }
  void lose_peer();

  // In a forked child.
  void close_in_child() { peer_.close_in_child(); }

 private:
  struct Flush {
    std::uint64_t token;
    bool forced;
    bool wanted;  // whoever asked is still connected
  };
  static constexpr std::uint32_t kFlushesMax = 16;

  // False when the connection must end.
  [[nodiscard]] bool take_message();
  void on_message(std::uint32_t type);
  void on_arm();
  void on_disarm();
  void on_flush();
  void on_get_maps();
  void on_get_file();
  void refuse(std::uint32_t reason, std::uint64_t generation, const char* text);
  void refuse_in_step(std::uint32_t reason, std::uint64_t generation, const char* text);
  void send_hello();
  void send_maps_if_new();
  void send_python_if_new();

  [[nodiscard]] SessionMemory* arm_memory(const pillion_arm& arm);
  void drain(std::uint32_t reason, bool flush_first, bool finalize);
  // For a disarm that the sidecar does not ask for: as it said when it armed.
  [[nodiscard]] bool finalize_unasked() const { return (arm_.detach & PILLION_DISARM_FINALIZE) != 0; }
  void after_arming(std::uint64_t now);
  [[nodiscard]] bool capture_through(std::uint64_t now);
  void finish();
  void answer_flushes();
  void answer_flush(const Flush& flush, std::uint64_t begun_ns, std::uint32_t result);
  void housekeeping(std::uint64_t now);

  ControlConfig config_{};
  PeerConnection peer_;
  IncomingMessage in_;
  CaptureState state_ = CaptureState::asleep;
  SessionMemory* memory_ = nullptr;
  pillion_arm arm_{};
  bool armed_by_peer_ = false;  // the connected peer is the one whose session this is
  bool exiting_ = false;
  std::uint32_t disarm_reason_ = 0;
  std::uint64_t arming_deadline_ = 0;
  std::uint64_t lease_deadline_ = 0;
  std::uint64_t next_housekeeping_ = 0;
  std::uint64_t through_since_ = 0;  // when the capture thread said its last word; 0: it has not
  std::uint64_t waiting_since_ = 0;  // when the capture thread was last asked for something
  std::uint64_t advanced_ = 0;       // while arming: when it was last looked at
  Flush flushes_[kFlushesMax]{};
  std::uint32_t flush_count_ = 0;
  bool flush_under_way_ = false;
  std::uint32_t maps_sent_generation_ = 0;
  bool maps_again_ = false;
  std::uint32_t python_sent_ = 0;  // the change that the peer knows
};

}  // namespace pillion::shim
