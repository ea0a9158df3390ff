// SPDX-License-Identifier: Apache-2.0
#include "pipeline/attachments.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/printable.h"

namespace pillion::pipeline {
namespace {

using session::GoneReason;
using session::SessionState;

// How often a sleeping shim is asked, while a window wants it, whether it has a CUDA context by now.
constexpr std::chrono::milliseconds kCare{50};
// A process that was disarmed under an open window is armed again, but not more often than this.
constexpr std::uint64_t kArmAgainNs = 1'000'000'000;
// How long a shim may take to end the session of a peer before us. It ends within a second; one that cannot
// is armed all the same, and its refusal says why.
constexpr std::uint64_t kOthersSessionNs = 2'000'000'000;
constexpr std::chrono::milliseconds kFilePatience{15'000};  // nobody waits for a file fetched ahead
constexpr std::size_t kUnacceptedListed = 16;
// A driver under which CUPTI cannot be armed before cuInit returns: tried again once it has.
constexpr std::uint32_t kDeadlinesForgiven = 5;
constexpr std::uint32_t kRenewalsPerLease = 5;

std::chrono::milliseconds again_after(GoneReason reason) {
  switch (reason) {
    case GoneReason::closed:
      return std::chrono::milliseconds(100);
    case GoneReason::timeout:  // it was stopped, and may run again any moment
      return std::chrono::milliseconds(1'000);
    case GoneReason::busy:
      return std::chrono::milliseconds(2'000);
    default:
      return std::chrono::milliseconds(10'000);
  }
}

std::uint64_t own_pid_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

}  // namespace

Attachments::Attachments(EventLoop& loop, AttachConfig config, DrainThread& drain, TargetCode& code,
                         Bell& bell)
    : loop_(loop),
      config_(std::move(config)),
      drain_(drain),
      code_(code),
      bell_(bell),
      holding_(config_.hold_programs),
      budget_(std::make_shared<session::RingBudget>(config_.ring_budget_bytes, config_.max_sessions)) {}

Attachments::~Attachments() = default;

Result<void> Attachments::start() {
  discovery::SocketDirectoryOptions options;
  options.path = config_.socket_dir;
  if (config_.abstract_sockets) {
    options.abstract_table = "/proc/net/unix";
    options.abstract_pid_namespace = own_pid_namespace();
  }
  auto directory = discovery::SocketDirectory::create(loop_, options, *this);
  if (!directory) return tl::make_unexpected(directory.error());
  directory_ = std::move(*directory);
  directory_->start();
  if (!directory_->report().exists) {
    log(LogLevel::warning, "socket directory " + config_.socket_dir +
                               ": no such folder yet; waiting for it (-socket-dir, PILLION_SOCKET_DIR)");
  }
  care_timer_ = loop_.every(kCare, [this] { look_after_sessions(); });
  return {};
}

void Attachments::stop() {
  stopping_ = true;
  for (auto& [path, attachment] : attachments_) {
    const auto state = attachment.session->state();
    if (state == SessionState::armed || state == SessionState::arming)
      attachment.session->disarm(config_.arm.settings.finalize);
  }
}

void Attachments::add(const discovery::ShimAddress& address, std::uint32_t uid) {
  added_[address.path] = {address, uid};
  on_found(address);
}

void Attachments::on_found(const discovery::ShimAddress& address) {
  if (stopping_ || attachments_.contains(address.path)) return;
  session::SessionOptions options;
  options.allowed_uids = config_.allow_uids;
  const auto added = added_.find(address.path);
  if (added != added_.end()) options.allowed_uids.push_back(added->second.second);
  options.renew_every = std::chrono::milliseconds(config_.arm.settings.lease_ms / kRenewalsPerLease);
  Attachment attachment;
  attachment.address = address;
  attachment.session = std::make_unique<session::Session>(
      loop_, static_cast<session::SessionObserver&>(*this), budget_, options, next_target_++, address.path);
  auto& kept = attachments_.emplace(address.path, std::move(attachment)).first->second;
  kept.session->connect();
}

// Of a process that we are connected to, the connection tells.
void Attachments::on_lost(const discovery::ShimAddress& address) { turned_away_.erase(address.path); }

void Attachments::on_hello(session::Session& session, const session::Hello& hello) {
  auto* attachment = find(session);
  if (attachment == nullptr) return;
  attachment->asked = false;
  attachment->held = hello.held();
  if (!attachment->accepted) {
    const discovery::TargetSelection selection(config_.pid ? std::vector<std::uint32_t>{*config_.pid}
                                                           : std::vector<std::uint32_t>{});
    if (!selection.matches(attachment->address, session.peer_pid())) {
      // Not ours: let go at once, another sidecar may want it. Not from within the session's own call.
      loop_.after(std::chrono::nanoseconds(0), [this, path = attachment->address.path] {
        const auto found = attachments_.find(path);
        if (found != attachments_.end() && !found->second.accepted) attachments_.erase(found);
      });
      return;
    }
    attachment->accepted = true;
    if (hello.armed()) attachment->arm_again_ns = monotonic_ns() + kOthersSessionNs;
    ever_attached_ = true;
    turned_away_.erase(attachment->address.path);
    ++totals_.sessions;
    directory_->mark_alive(attachment->address.path);
    code_.add(session.target(), session.file_channel());
    log(LogLevel::info, "attached to " + hello.comm + ", process " + std::to_string(pid_of(*attachment)));
    bell_.ring();
  }
  // The session of the peer before us has ended.
  if (!hello.armed() && session.generation() == 0) attachment->arm_again_ns = 0;
  arm_if_wanted(*attachment);
  start_if_ready(*attachment);
  bell_.ring();
}

void Attachments::on_armed(session::Session& session, const session::Armed& armed) {
  auto* attachment = find(session);
  if (attachment == nullptr || !session.memory()) return;
  attachment->refused.reset();
  attachment->skipped.clear();
  const auto& hello = *session.hello();
  CaptureSettings in_force = armed.settings;
  if (!armed.tells_everything) {
    in_force = attachment->settings;
    in_force.kinds = armed.settings.kinds;
    in_force.sample_permyriad = armed.settings.sample_permyriad;
    in_force.sample_mib_per_s = armed.settings.sample_mib_per_s;
    in_force.stack_bytes_max = armed.settings.stack_bytes_max;
  }
  attachment->in_force = in_force;
  attachment->cupti_path = armed.cupti_path;
  attachment->cupti_version = armed.cupti_version;
  ArmedTarget target{session.target(),     pid_of(*attachment),       hello.comm, hello.exe, armed, in_force,
                     attachment->settings, session.memory()->rings(), {}};
  session.drop_memory();  // the drain thread holds it from here on
  // The window's waiter must see the target on the drain thread before it opens its window there.
  if (!drain_.loop().post([this, target = std::move(target)]() mutable {
        drain_.add(std::move(target));
        bell_.ring();
      })) {
    log_once(LogLevel::error, "drain queue", "the drain thread takes no work");
  }
  log(LogLevel::info, "armed process " + std::to_string(pid_of(*attachment)) + " with CUPTI " +
                          std::to_string(armed.cupti_version) + " from " + armed.cupti_path);
  const auto difference = settings_difference(in_force, attachment->settings);
  if (!difference.empty()) {
    log(LogLevel::info, "process " + std::to_string(pid_of(*attachment)) + ": " + difference);
  }
  start_if_ready(*attachment);
  if (std::exchange(attachment->arming_to_finalize, false) && !wanted(*attachment)) session.disarm(true);
}

void Attachments::on_refused(session::Session& session, const session::Refused& refused) {
  auto* attachment = find(session);
  if (attachment == nullptr) return;
  const bool again = attachment->held && refused.reason == PILLION_REFUSAL_DEADLINE &&
                     ++attachment->deadlines_missed <= kDeadlinesForgiven;
  if (again) {
    log(LogLevel::warning,
        "process " + std::to_string(pid_of(*attachment)) +
            " could not be armed before its cuInit returned: its first launches are missed");
    attachment->arm_again_ns = monotonic_ns() + kArmAgainNs;
    start_if_ready(*attachment);
    bell_.ring();
    return;
  }
  attachment->arming_to_finalize = false;
  attachment->late_finalize.refused();
  attachment->refused = refused;
  attachment->refused_in = windows_.empty() ? 0 : windows_.rbegin()->first;
  ++totals_.refusals[session::refusal_name(refused.reason)];
  log(LogLevel::warning, "process " + std::to_string(pid_of(*attachment)) + " refused to be armed: " +
                             session::refusal_name(refused.reason) + ": " + refused.text);
  start_if_ready(*attachment);
  bell_.ring();
}

void Attachments::on_disarmed(session::Session& session, const session::Disarmed& disarmed) {
  auto* attachment = find(session);
  if (attachment == nullptr) return;
  const auto reason = session::disarm_reason_name(disarmed.reason);
  attachment->last_disarm = reason + ", " + session::residue_name(disarmed.residue) +
                            (disarmed.text.empty() ? "" : ": " + disarmed.text);
  attachment->residue =
      disarmed.residue == PILLION_RESIDUE_FINALIZED ? "" : session::residue_name(disarmed.residue);
  const bool asked = disarmed.reason == PILLION_DISARM_ASKED;
  attachment->late_finalize.detached(disarmed.residue, asked && config_.arm.settings.finalize,
                                     monotonic_ns());
  const std::string said = reason + (disarmed.text.empty() ? "" : ": " + disarmed.text);
  (void)drain_.loop().post(
      [this, target = session.target(), generation = disarmed.generation,
       why = asked ? std::string() : "disarmed: " + said] { drain_.end(target, generation, why); });
  log(LogLevel::info,
      "disarmed process " + std::to_string(pid_of(*attachment)) + ": " + attachment->last_disarm);
  attachment->in_force.reset();
  if (!asked) attachment->arm_again_ns = monotonic_ns() + kArmAgainNs;
  if (disarmed.reason == PILLION_DISARM_CUPTI_FATAL || disarmed.reason == PILLION_DISARM_CLOBBERED) {
    attachment->refused = session::Refused{disarmed.generation, PILLION_REFUSAL_INERT, 0, {}, said};
    attachment->refused_in = windows_.empty() ? 0 : windows_.rbegin()->first;
  }
  arm_if_wanted(*attachment);
  bell_.ring();
}

// It follows ARMED, and may change while armed: the drain thread keeps what held for a window.
void Attachments::on_python(session::Session& session, const session::Python& python) {
  if (python.generation == 0) return;
  (void)drain_.loop().post(
      [this, target = session.target(), generation = python.generation,
       text = session::python_summary(python)] { drain_.note_python(target, generation, text); });
}

void Attachments::on_maps(session::Session& session, session::MapsText maps) {
  code_.update(session.target(), maps);
  auto* attachment = find(session);
  if (attachment == nullptr || attachment->fetching) return;
  attachment->to_fetch = code_.missing_files(session.target());
  fetch_next_file(*attachment);
}

// Ahead of need, so that a program that ends right after its first launches leaves whole stacks. One at a
// time: the shim's answers to the unwinder come in between.
void Attachments::fetch_next_file(Attachment& attachment) {
  attachment.fetching = !attachment.to_fetch.empty();
  if (!attachment.fetching) return;
  const unwind::Mapping mapping = std::move(attachment.to_fetch.back());
  attachment.to_fetch.pop_back();
  auto& session = *attachment.session;
  session.get_file(mapping.start, kFilePatience,
                   [this, &session, mapping](Result<session::ReceivedFile> received) {
                     // Without an errno it is no answer of the shim's: the session ends, or its peer hangs.
                     if (!received && received.error().number == 0) return;
                     if (received) code_.keep(session.target(), mapping, std::move(received->fd));
                     if (auto* there = find(session)) fetch_next_file(*there);
                   });
}

void Attachments::on_gone(session::Session& session, const session::Gone& gone) {
  auto* attachment = find(session);
  if (attachment == nullptr) return;
  const std::string path = attachment->address.path;
  // A socket that a dead process left behind is tried again and again; the directory's report counts it once.
  if (gone.reason != GoneReason::stale) ++totals_.gone[session::gone_name(gone.reason)];
  if (attachment->accepted) {
    for (auto& [id, window] : windows_) window.gone += in_scope(*attachment, window) ? 1 : 0;
    log(LogLevel::info, "process " + std::to_string(pid_of(*attachment)) + " has gone: " + gone.text);
    (void)drain_.loop().post([this, target = session.target(), generation = session.generation()] {
      drain_.end(target, generation, "the process ended");
      drain_.leave(target);
    });
  } else {
    remember_unaccepted(*attachment, gone);
  }
  if (gone.reason == GoneReason::stale) {
    directory_->mark_stale(path);
    added_.erase(path);
  } else {
    directory_->find_again(path, again_after(gone.reason));
    loop_.after(again_after(gone.reason), [this, path] {
      const auto added = added_.find(path);
      if (added != added_.end()) on_found(discovery::ShimAddress(added->second.first));
    });
  }
  attachments_.erase(path);
  bell_.ring();
}

void Attachments::remember_unaccepted(const Attachment& attachment, const session::Gone& gone) {
  const std::string& path = attachment.address.path;
  if (gone.reason == GoneReason::stale || gone.reason == GoneReason::closed) {
    turned_away_.erase(path);
    return;
  }
  turned_away_[path] = TurnedAway{pid_of(attachment), gone.reason, gone.text};
  auto& list = totals_.unaccepted;
  const std::string text = attachment.address.path + ": " + gone.text;
  if (std::find(list.begin(), list.end(), text) != list.end()) return;
  if (list.size() >= kUnacceptedListed) list.erase(list.begin());
  list.push_back(text);
  log_once(LogLevel::warning, "unaccepted " + attachment.address.path, text);
}

void Attachments::look_after_sessions() {
  if (stopping_) return;
  for (auto& [path, attachment] : attachments_) {
    if (!attachment.accepted || attachment.session->state() != SessionState::connected) continue;
    if (!wanted(attachment)) {
      finalize_late(attachment);
      continue;
    }
    const auto& hello = *attachment.session->hello();
    const bool others = hello.armed() && attachment.session->generation() == 0;
    if (!hello.has_context() || others) attachment.session->query();  // on_hello follows
    if (hello.has_context()) arm_if_wanted(attachment);
  }
}

void Attachments::arm_if_wanted(Attachment& attachment) {
  if (stopping_ || !attachment.accepted || !wanted(attachment)) return;
  auto& session = *attachment.session;
  if (session.state() != SessionState::connected) {
    (void)session.keep_armed();
    return;
  }
  if (!session.hello()->has_context() && !attachment.held) return;
  if (monotonic_ns() < attachment.arm_again_ns) return;
  if (attachment.refused && attachment.refused_in >= windows_.rbegin()->first)
    return;  // until the next request
  auto config = config_.arm;
  config.settings = settings_for(attachment);
  attachment.settings = config.settings;
  if (auto sent = session.arm(config); !sent) {
    if (attachment.skipped.empty()) {
      ++totals_.over_budget;
      log(LogLevel::warning, "process " + std::to_string(pid_of(attachment)) + ": " + sent.error().message());
    }
    attachment.skipped = sent.error().message();
    bell_.ring();
  }
}

// CUPTI can be finalized by who has subscribed to it alone: armed for the least there is, and let go at once.
void Attachments::finalize_late(Attachment& attachment) {
  const auto used = [&] { return processor_ns(pid_of(attachment)); };
  if (!attachment.late_finalize.due(monotonic_ns(), used)) return;
  attachment.late_finalize.trying();
  auto config = config_.arm;
  config.settings.kinds = PILLION_KIND_KERNEL;
  attachment.settings = config.settings;
  if (auto sent = attachment.session->arm(config); !sent) {
    log(LogLevel::warning,
        "process " + std::to_string(pid_of(attachment)) + ", to finalize CUPTI: " + sent.error().message());
    return;
  }
  attachment.arming_to_finalize = true;
}

// Once there is nothing to wait for: it is armed, or it will not be.
void Attachments::start_if_ready(Attachment& attachment) {
  if (!attachment.held || holding_) return;
  const auto state = attachment.session->state();
  if (state == SessionState::arming || state == SessionState::draining) return;
  attachment.held = false;
  attachment.session->start_program();
}

bool Attachments::in_scope(const Attachment& attachment, const Wanted& window) const {
  return attachment.accepted && (!window.pid || *window.pid == pid_of(attachment));
}

bool Attachments::wanted(const Attachment& attachment) const {
  return std::any_of(windows_.begin(), windows_.end(),
                     [&](const auto& window) { return in_scope(attachment, window.second); });
}

Attachments::Attachment* Attachments::find(const session::Session& session) {
  const auto found = attachments_.find(session.path());
  return found != attachments_.end() && found->second.session.get() == &session ? &found->second : nullptr;
}

std::uint32_t Attachments::pid_of(const Attachment& attachment) {
  const auto& session = *attachment.session;
  return session.peer_pid() != 0 ? session.peer_pid() : attachment.address.pid;
}

}  // namespace pillion::pipeline
