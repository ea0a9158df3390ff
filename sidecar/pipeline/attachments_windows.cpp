// SPDX-License-Identifier: Apache-2.0
// The half of Attachments that windows and reports ask.
#include <algorithm>
#include <utility>

#include "pipeline/attachments.h"

namespace pillion::pipeline {

using session::SessionState;

Result<void> Attachments::begin_window(join::WindowId id, std::optional<std::uint32_t> pid,
                                       const SettingsWish& wish) {
  const Wanted window{pid, wish};
  for (const auto& [path, attachment] : attachments_) {
    if (auto conflict = settings_conflict(attachment, window); !conflict.empty()) {
      return fail("open a window over", "process " + std::to_string(pid_of(attachment)), std::move(conflict));
    }
  }
  const auto scope = windows_.emplace(id, window).first;
  for (auto& [path, attachment] : attachments_) {
    attachment.skipped.clear();
    if (!in_scope(attachment, scope->second)) continue;
    const auto state = attachment.session->state();
    const bool on = state == SessionState::armed || state == SessionState::arming;
    if (on && attachment.settings != settings_for(attachment) && sole_window(attachment)) {
      attachment.session->disarm(config_.arm.settings.finalize);  // on_disarmed arms anew
    } else if (attachment.session->hello()->has_context() || attachment.held) {
      arm_if_wanted(attachment);
    } else {
      // Its word is as old as its HELLO: a window that began on it would miss the launches until the next
      // look.
      attachment.asked = true;
      attachment.session->query();
    }
  }
  return {};
}

// What the windows over it wish; they agree, or the later one was refused.
CaptureSettings Attachments::settings_for(const Attachment& attachment) const {
  for (const auto& [id, window] : windows_) {
    if (window.wish.any() && in_scope(attachment, window))
      return window.wish.applied_to(config_.arm.settings);
  }
  return config_.arm.settings;
}

bool Attachments::sole_window(const Attachment& attachment) const {
  return std::count_if(windows_.begin(), windows_.end(),
                       [&](const auto& window) { return in_scope(attachment, window.second); }) == 1;
}

// A shim is armed once, for all windows over it, so the first one's settings hold as long as one is open.
std::string Attachments::settings_conflict(const Attachment& attachment, const Wanted& window) const {
  if (!window.wish.any() || !in_scope(attachment, window) || !wanted(attachment)) return {};
  const auto state = attachment.session->state();
  const bool on = state == SessionState::armed || state == SessionState::arming;
  const CaptureSettings held = on ? attachment.settings : settings_for(attachment);
  return settings_difference(held, window.wish.applied_to(held));
}

void Attachments::release_programs() {
  holding_ = false;
  for (auto& [path, attachment] : attachments_) start_if_ready(attachment);
}

WindowArming Attachments::arming(join::WindowId id) const {
  WindowArming answer;
  const auto window = windows_.find(id);
  if (window == windows_.end()) return answer;
  answer.gone = window->second.gone;
  for (const auto& [path, attachment] : attachments_) {
    if (!in_scope(attachment, window->second)) continue;
    ++answer.selected;
    if (!attachment.residue.empty()) {
      answer.residues.push_back("process " + std::to_string(pid_of(attachment)) +
                                ", since an earlier detach: " + attachment.residue);
    }
    const auto state = attachment.session->state();
    if (state == SessionState::armed) {
      ++answer.armed;
    } else if (attachment.refused && attachment.refused_in >= id) {
      answer.refused.push_back(*attachment.refused);
    } else if (!attachment.skipped.empty()) {
      ++answer.skipped;
      answer.skipped_text = attachment.skipped;
    } else if (state == SessionState::connected && !attachment.session->hello()->has_context() &&
               !attachment.asked && !attachment.held) {
      ++answer.asleep;
    } else {
      ++answer.waiting;
    }
  }
  return answer;
}

void Attachments::end_window(join::WindowId id) {
  windows_.erase(id);
  release_programs();
  for (auto& [path, attachment] : attachments_) {
    if (!attachment.accepted || wanted(attachment)) continue;
    const auto state = attachment.session->state();
    if (state == SessionState::armed || state == SessionState::arming) {
      attachment.session->disarm(config_.arm.settings.finalize, config_.linger);
    }
  }
}

void Attachments::flush(join::WindowId id, bool forced, std::chrono::milliseconds deadline,
                        std::function<void(bool all)> done) {
  const auto window = windows_.find(id);
  // Goes with its last copy: after the last answer, or at once when nothing is armed.
  struct Answers {
    explicit Answers(std::function<void(bool)> when_done) : done(std::move(when_done)) {}
    Answers(const Answers&) = delete;
    Answers& operator=(const Answers&) = delete;
    ~Answers() { done(all); }
    std::function<void(bool)> done;
    bool all = true;
  };
  const auto answers = std::make_shared<Answers>(std::move(done));
  if (window == windows_.end()) return;
  for (auto& [path, attachment] : attachments_) {
    if (!in_scope(attachment, window->second) || attachment.session->state() != SessionState::armed) continue;
    attachment.session->flush(forced, deadline, [answers](const Result<session::Flushed>& flushed) {
      answers->all &= flushed.has_value();
    });
  }
}

void Attachments::request_maps(TargetId target) {
  for (auto& [path, attachment] : attachments_) {
    if (attachment.session->target() == target) attachment.session->request_maps(0);
  }
}

std::size_t Attachments::connected() const {
  std::size_t count = 0;
  for (const auto& [path, attachment] : attachments_) count += attachment.accepted ? 1 : 0;
  return count;
}

bool Attachments::undecided() const { return connected() < attachments_.size(); }

std::size_t Attachments::armed() const {
  std::size_t count = 0;
  for (const auto& [path, attachment] : attachments_) {
    count += attachment.session->state() == SessionState::armed ? 1 : 0;
  }
  return count;
}

AttachReport Attachments::report() const {
  AttachReport report = totals_;
  if (directory_) report.directory = directory_->report();
  for (const auto& [path, turned] : turned_away_) report.turned_away.push_back(turned);
  report.ring_bytes = budget_->bytes();
  for (const auto& [path, attachment] : attachments_) {
    if (!attachment.accepted) continue;
    const auto& hello = *attachment.session->hello();
    AttachmentView view;
    view.target = attachment.session->target();
    view.pid = pid_of(attachment);
    view.comm = hello.comm;
    view.exe = hello.exe;
    view.state = session::state_name(attachment.session->state());
    view.has_context = hello.has_context();
    // HELLO came before the shim had loaded one, unless a peer before us had it armed.
    const bool since = attachment.cupti_version != 0;
    view.cupti_path = since ? attachment.cupti_path : hello.cupti_path;
    view.cupti_version = since ? attachment.cupti_version : hello.cupti_version;
    view.driver_version = hello.driver_version;
    view.in_force = attachment.in_force;
    view.python = attachment.session->python();
    if (attachment.refused) {
      view.last_refusal = session::refusal_name(attachment.refused->reason) + ": " + attachment.refused->text;
    }
    view.last_disarm = attachment.last_disarm;
    report.attachments.push_back(std::move(view));
  }
  return report;
}

}  // namespace pillion::pipeline
