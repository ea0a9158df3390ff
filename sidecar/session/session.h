// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/capture_settings.h"
#include "base/event_loop.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "records.h"
#include "session/file_channel.h"
#include "session/maps_assembly.h"
#include "session/messages.h"
#include "session/peer_socket.h"
#include "session/pending_replies.h"
#include "session/ring_memory.h"

namespace pillion::session {

enum class SessionState : std::uint8_t {
  connecting,  // no HELLO yet
  connected,   // the shim sleeps: "attached"
  arming,      // ARM sent
  armed,
  draining,  // DISARM sent
  gone       // for good; a process that comes back gets a new Session
};
[[nodiscard]] const char* state_name(SessionState state);

enum class GoneReason : std::uint8_t {
  closed,      // the peer closed: the process ended, or executed another program
  stale,       // nobody listens at the socket, or it has gone
  unaccepted,  // a shim of a uid that is neither ours nor allowed: normal in a pod
  busy,        // another sidecar holds the shim
  version,     // another major of the wire
  refused,     // the shim does not want us
  protocol,    // the peer does not speak the wire
  timeout,     // no HELLO, or no answer to ARM or DISARM
  failed       // connect failed otherwise
};
[[nodiscard]] const char* gone_name(GoneReason reason);

struct Gone {
  GoneReason reason = GoneReason::closed;
  std::string text;              // for people; printable
  std::uint32_t uid = 0;         // unaccepted
  std::uint32_t holder_pid = 0;  // busy; 0: unknown
};

class Session;

// Told on the loop's thread. The session may be destroyed in on_gone and in no other of these calls.
class SessionObserver {
 public:
  virtual ~SessionObserver() = default;
  virtual void on_hello(Session& session, const Hello& hello) = 0;  // the first, and each answer to query()
  virtual void on_armed(Session& session, const Armed& armed) = 0;
  virtual void on_refused(Session& session, const Refused& refused) = 0;  // connected again
  virtual void on_disarmed(Session& session,
                           const Disarmed& disarmed) = 0;  // connected again, asked for or not
  virtual void on_maps(Session& session, MapsText maps) = 0;
  virtual void on_python(Session&, const Python&) {}             // session.python() has it, too
  virtual void on_gone(Session& session, const Gone& gone) = 0;  // last call; from an own stack
};

struct SessionOptions {
  std::uint32_t own_uid = ::geteuid();
  std::vector<std::uint32_t> allowed_uids;  // besides own_uid
  // Long: a process that is stopped or starved answers when it runs again, and waiting for it costs nothing.
  std::chrono::milliseconds hello_timeout{15'000};
  std::chrono::milliseconds answer_timeout{20'000};  // DISARM; ARM has this on top of its own deadline
  std::chrono::milliseconds renew_every{1'000};      // a fifth of the lease
  std::chrono::milliseconds maps_again{1'000};       // between an answer with a hole and the next question
};

struct ArmConfig {
  CaptureSettings settings;
  std::uint32_t module_slots = 64;
  std::uint64_t arena_data_bytes = 16u << 20;
  std::uint32_t deadline_ms = 15'000;

  [[nodiscard]] RingGeometry geometry() const;
};

struct SessionCounters {
  std::uint64_t messages = 0;
  std::uint64_t unknown_messages = 0;     // types of a newer minor: skipped
  std::uint64_t unexpected_messages = 0;  // answers nobody asked for, or of an older generation: skipped
  std::uint64_t surplus_fds = 0;          // closed
  std::uint64_t maps_repeated = 0;
  std::uint64_t maps_broken = 0;
  std::uint64_t maps_too_large = 0;
  std::uint64_t renewals_skipped = 0;  // the peer does not read
};

// One connection to one shim. Lives on the loop's thread; only file_channel()'s object may go to others.
class Session {
 public:
  static constexpr std::size_t kFilesMax = 256;  // asked for at once
  static constexpr std::size_t kFlushesMax = 64;
  static constexpr std::size_t kOutgoingMax = 512;  // packets waiting for a peer that does not read

  Session(EventLoop& loop, SessionObserver& observer, std::shared_ptr<RingBudget> budget,
          SessionOptions options, TargetId target, std::string path);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void connect();               // never fails on the spot: on_gone says why
  void adopt(UniqueFd socket);  // an already connected one; tests

  // Makes the rings and sends ARM; on_armed, on_refused or on_gone follows. State connected only. An error
  // (ring budget, memory, state) leaves the session connected.
  [[nodiscard]] Result<void> arm(const ArmConfig& config);
  // Sends DISARM after `linger`, unless keep_armed() comes first; on_disarmed or on_gone follows. finalize:
  // let go of CUPTI where that is safe.
  void disarm(bool finalize, std::chrono::milliseconds linger = std::chrono::milliseconds(0));
  [[nodiscard]] bool keep_armed();  // true: arming or armed, and it stays so

  // forced: also what is not complete. Answered once, also by failure.
  void flush(bool forced, std::chrono::milliseconds deadline, std::function<void(Result<Flushed>)> done);
  void get_file(std::uint64_t mapping_start, std::chrono::milliseconds deadline,
                std::function<void(Result<ReceivedFile>)> done);
  void request_maps(std::uint32_t known_generation);  // on_maps follows
  void query();                                       // on_hello follows
  void start_program();                               // lets go a program that waits in cuInit

  [[nodiscard]] TargetId target() const { return target_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] SessionState state() const { return state_; }
  [[nodiscard]] const std::optional<Hello>& hello() const { return hello_; }
  [[nodiscard]] const std::optional<Python>& python() const { return python_; }  // what it said last
  [[nodiscard]] std::uint32_t peer_pid() const { return peer_.pid; }  // as seen from here; 0: not visible
  [[nodiscard]] std::uint32_t peer_uid() const { return peer_.uid; }
  [[nodiscard]] std::uint64_t generation() const { return generation_; }  // of the last arm()
  [[nodiscard]] const SessionCounters& counters() const { return counters_; }
  [[nodiscard]] std::shared_ptr<FileChannel> file_channel() const { return file_channel_; }

  // The rings of the last arm(): there while armed and after it, also after on_gone, until drop_memory(), the
  // next arm() or a refusal. Their share of the ring budget is held as long as anybody holds them.
  [[nodiscard]] std::shared_ptr<RingMemory> memory() const { return memory_; }
  void drop_memory() { memory_.reset(); }

 private:
  struct Outgoing {
    std::vector<std::byte> bytes;
    std::shared_ptr<RingMemory> memory;  // ARM: whose fds go along
  };

  void try_connect();
  void begin(UniqueFd socket);
  void on_socket(std::uint32_t epoll_events);
  void read_packets();
  void write_packets();
  void handle(Packet packet);
  void handle(Hello hello);
  void handle(Busy busy);
  void handle(Armed armed);
  void handle(Refused refused);
  void handle(Flushed flushed);
  void handle(Disarmed disarmed);
  void handle(MapsPiece piece);
  void handle(FileReply reply, std::vector<UniqueFd>& fds);
  void handle(Python python);
  void handle(OtherMajor version);
  void handle(UnknownMessage message);
  void send_disarm();
  void renew();
  void set_state(SessionState state);
  void set_deadline(std::chrono::milliseconds deadline, const char* awaited);
  void on_deadline(const char* awaited);
  void leave(Gone gone);
  template <typename Wire>
  [[nodiscard]] bool send(const Wire& message, std::shared_ptr<RingMemory> memory = nullptr);
  [[nodiscard]] bool send_bytes(Outgoing packet);

  EventLoop& loop_;
  SessionObserver& observer_;
  const std::shared_ptr<RingBudget> budget_;
  const SessionOptions options_;
  const TargetId target_;
  const std::string path_;

  SessionState state_ = SessionState::connecting;
  UniqueFd socket_;
  PeerCredentials peer_;
  std::optional<Hello> hello_;
  std::optional<Python> python_;
  std::uint64_t generation_ = 0;
  std::shared_ptr<RingMemory> memory_;
  std::optional<bool> lingering_;  // a disarm to come, and its `finalize`
  PacketReader reader_;
  std::deque<Outgoing> outgoing_;
  MapsAssembly maps_;
  SessionCounters counters_;

  EventLoop::TimerId connect_timer_ = 0;
  EventLoop::TimerId deadline_timer_ = 0;  // of the state
  EventLoop::TimerId renew_timer_ = 0;
  EventLoop::TimerId linger_timer_ = 0;
  EventLoop::TimerId maps_timer_ = 0;
  EventLoop::TimerId gone_timer_ = 0;
  std::uint64_t connect_until_ns_ = 0;

  PendingReplies<Flushed> flushes_;
  PendingReplies<ReceivedFile> files_;
  std::shared_ptr<FileChannel> file_channel_;
};

}  // namespace pillion::session
