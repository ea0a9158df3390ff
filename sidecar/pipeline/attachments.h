// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "discovery/shim_address.h"
#include "discovery/socket_directory.h"
#include "join/window.h"
#include "pipeline/drain_thread.h"
#include "pipeline/late_finalize.h"
#include "pipeline/target_code.h"
#include "session/session.h"

namespace pillion::pipeline {

struct AttachConfig {
  std::string socket_dir;
  std::optional<std::uint32_t> pid;  // -pid: nothing else is attached
  std::uint32_t max_sessions = 64;
  std::uint64_t ring_budget_bytes = session::RingBudget::kBytesDefault;
  std::vector<std::uint32_t> allow_uids;
  session::ArmConfig arm;  // unless a window wishes otherwise
  std::chrono::milliseconds linger{30'000};
  bool abstract_sockets = false;  // also shims of this PID namespace that listen without a directory
  // Programs that wait in cuInit go on only when the first window is open (record -- command).
  bool hold_programs = false;
};

// A process that was connected to, for /status and for people.
struct AttachmentView {
  TargetId target = 0;
  std::uint32_t pid = 0;
  std::string comm;
  std::string exe;
  std::string state;
  bool has_context = false;
  std::string cupti_path;
  std::uint32_t cupti_version = 0;
  std::uint32_t driver_version = 0;
  std::optional<CaptureSettings> in_force;  // while armed
  std::optional<session::Python> python;    // once the shim has said
  std::string last_refusal;
  std::string last_disarm;  // why and what stayed behind
};

// A shim that is there and does not take us.
struct TurnedAway {
  std::uint32_t pid = 0;  // in the shim's own PID namespace
  session::GoneReason reason = session::GoneReason::busy;
  std::string text;
};

struct AttachReport {
  discovery::SocketDirectoryReport directory;
  std::vector<AttachmentView> attachments;
  std::map<std::string, std::uint64_t> gone;  // connections that ended, by reason
  std::vector<std::string> unaccepted;  // shims of other uids and those held by others, by name; the newest
  std::vector<TurnedAway> turned_away;  // as things stand
  std::uint64_t sessions = 0;           // ever connected
  std::uint64_t over_budget = 0;
  std::uint64_t ring_bytes = 0;
  std::map<std::string, std::uint64_t> refusals;
};

// How a window stands with the processes that it wants.
struct WindowArming {
  std::size_t selected = 0;  // connected and in scope
  std::size_t waiting = 0;   // being armed
  std::size_t armed = 0;
  std::size_t asleep = 0;   // no CUDA context yet: armed when one comes
  std::size_t gone = 0;     // were in scope when the window began, or came later, and have ended
  std::size_t skipped = 0;  // past -max-sessions or -ring-budget
  std::vector<session::Refused> refused;
  std::string skipped_text;
  std::vector<std::string> residues;  // what earlier detaches left in the selected processes
};

// The thread that finds shims, connects, arms and disarms. Every method but the constructor runs on the
// loop's thread.
class Attachments : private discovery::SocketDirectoryObserver, private session::SessionObserver {
 public:
  // All outlive it. `bell` rings at every change of state.
  Attachments(EventLoop& loop, AttachConfig config, DrainThread& drain, TargetCode& code, Bell& bell);
  ~Attachments() override;

  [[nodiscard]] Result<void> start();
  void stop();  // disarms everything without linger and lets go

  // A shim that is in no directory that is followed: one that was injected. Shims of this uid are its kind.
  void add(const discovery::ShimAddress& address, std::uint32_t uid);

  // Arms what the window wants. The error is for the client: another window is open over the same process,
  // with settings that this one does not want; then nothing was begun. A window without wishes takes what is
  // in force.
  [[nodiscard]] Result<void> begin_window(join::WindowId id, std::optional<std::uint32_t> pid,
                                          const SettingsWish& wish = {});
  // The window is open where records are joined: programs that wait in cuInit go on.
  void release_programs();
  [[nodiscard]] WindowArming arming(join::WindowId id) const;
  void end_window(join::WindowId id);

  // Flushes every armed process of the window; `done` is called once all have answered or failed: all did.
  void flush(join::WindowId id, bool forced, std::chrono::milliseconds deadline,
             std::function<void(bool all)> done);

  void request_maps(TargetId target);

  [[nodiscard]] std::size_t connected() const;  // "attached"
  [[nodiscard]] std::size_t armed() const;
  [[nodiscard]] bool undecided() const;  // some shim has yet to say whether it is one that -pid wants
  [[nodiscard]] bool ever_attached() const { return ever_attached_; }
  [[nodiscard]] AttachReport report() const;

 private:
  struct Attachment {
    discovery::ShimAddress address;
    std::unique_ptr<session::Session> session;
    bool accepted = false;                    // HELLO came and -pid wants it
    std::optional<session::Refused> refused;  // by the last arming
    join::WindowId refused_in = 0;            // newest window that the refusal counts for
    std::string skipped;                      // why arm() could not even be sent
    std::string last_disarm;
    std::string residue;  // of the last detach; empty: none, or nothing stayed behind
    LateFinalize late_finalize;
    bool arming_to_finalize = false;
    bool asked = false;  // whether it has a CUDA context by now; the answer is under way
    bool held = false;   // its program waits in cuInit for us
    std::uint32_t deadlines_missed = 0;
    std::uint64_t arm_again_ns = 0;
    std::vector<unwind::Mapping> to_fetch;  // files that no one has asked for yet
    bool fetching = false;
    CaptureSettings settings;                 // of the last ARM
    std::optional<CaptureSettings> in_force;  // while armed
    std::string cupti_path;                   // that the last ARMED named
    std::uint32_t cupti_version = 0;
  };
  struct Wanted {
    std::optional<std::uint32_t> pid;
    SettingsWish wish;
    std::size_t gone = 0;
  };

  void on_found(const discovery::ShimAddress& address) override;
  void on_lost(const discovery::ShimAddress& address) override;
  void on_hello(session::Session& session, const session::Hello& hello) override;
  void on_armed(session::Session& session, const session::Armed& armed) override;
  void on_refused(session::Session& session, const session::Refused& refused) override;
  void on_disarmed(session::Session& session, const session::Disarmed& disarmed) override;
  void on_maps(session::Session& session, session::MapsText maps) override;
  void on_python(session::Session& session, const session::Python& python) override;
  void on_gone(session::Session& session, const session::Gone& gone) override;

  void look_after_sessions();
  void arm_if_wanted(Attachment& attachment);
  void finalize_late(Attachment& attachment);
  void fetch_next_file(Attachment& attachment);
  void start_if_ready(Attachment& attachment);
  [[nodiscard]] CaptureSettings settings_for(const Attachment& attachment) const;
  [[nodiscard]] std::string settings_conflict(const Attachment& attachment, const Wanted& window) const;
  [[nodiscard]] bool wanted(const Attachment& attachment) const;
  [[nodiscard]] bool sole_window(const Attachment& attachment) const;
  [[nodiscard]] bool in_scope(const Attachment& attachment, const Wanted& window) const;
  [[nodiscard]] Attachment* find(const session::Session& session);
  [[nodiscard]] static std::uint32_t pid_of(const Attachment& attachment);
  void remember_unaccepted(const Attachment& attachment, const session::Gone& gone);

  EventLoop& loop_;
  const AttachConfig config_;
  DrainThread& drain_;
  TargetCode& code_;
  Bell& bell_;
  bool holding_;  // programs that wait in cuInit wait for the first window
  const std::shared_ptr<session::RingBudget> budget_;
  std::unique_ptr<discovery::SocketDirectory> directory_;
  std::map<std::string, Attachment> attachments_;                                  // by path
  std::map<std::string, std::pair<discovery::ShimAddress, std::uint32_t>> added_;  // by path, with their uid
  std::map<join::WindowId, Wanted> windows_;
  TargetId next_target_ = 1;
  bool ever_attached_ = false;
  bool stopping_ = false;
  std::map<std::string, TurnedAway> turned_away_;  // by path
  EventLoop::TimerId care_timer_ = 0;
  AttachReport totals_;
};

}  // namespace pillion::pipeline
