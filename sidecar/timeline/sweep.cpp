// SPDX-License-Identifier: Apache-2.0
#include "timeline/sweep.h"

#include <algorithm>
#include <vector>

namespace pillion::timeline {
namespace {

// Copies that are over are looked through so often.
constexpr std::size_t kCopiesKept = 1024;

class Sweeper {
 public:
  Sweeper(const Sweep& over, SweepSite& site, SweepSums& sums)
      : over_(over), site_(site), sums_(sums), busy_until_(over.from_ns), kernel_until_(over.from_ns) {}

  std::uint64_t run() {
    const Interval* next = nullptr;  // behind to_ns
    for (const Interval& one : over_.intervals) {
      if (one.end_ns < over_.from_ns) continue;
      if (one.start_ns >= over_.to_ns) {
        if (over_.end != SweepEnd::window) break;
        if (one.launched_ns == 0 || one.launched_ns >= over_.to_ns) continue;  // of no concern to this window
        next = &one;
        break;
      }
      if (!one.works()) {
        add_copy(one);
        continue;
      }
      if (one.start_ns > busy_until_) gap(busy_until_, one.start_ns, &one);
      add_work(one);
    }
    if (busy_until_ >= over_.to_ns) return over_.to_ns;
    if (over_.end == SweepEnd::open) return busy_until_;
    gap(busy_until_, next != nullptr ? next->start_ns : over_.to_ns, next);
    return over_.to_ns;
  }

 private:
  [[nodiscard]] std::uint64_t within(std::uint64_t time_ns) const {
    return std::clamp(time_ns, over_.from_ns, over_.to_ns);
  }

  void add_copy(const Interval& copy) {
    if (copies_.size() >= kCopiesKept) forget_copies(busy_until_);
    copies_.push_back(&copy);
  }

  void forget_copies(std::uint64_t until_ns) {
    std::erase_if(copies_, [until_ns](const Interval* copy) { return copy->end_ns <= until_ns; });
  }

  void add_work(const Interval& work) {
    const std::uint64_t begin = within(work.start_ns);
    const std::uint64_t end = within(work.end_ns);
    if (work.kind == ExecutionKind::kernel) {
      sums_.kernel_ns += end - begin;
      if (end > kernel_until_) {
        sums_.kernel_busy_ns += end - std::max(begin, kernel_until_);
        kernel_until_ = end;
      }
    }
    if (end > busy_until_) sums_.busy_ns += end - std::max(begin, busy_until_);
    if (end < busy_until_) return;
    last_launched_ns_ = end == busy_until_ ? std::max(last_launched_ns_, work.launched_ns) : work.launched_ns;
    busy_until_ = end;
  }

  // Nothing worked from `begin_ns` on, and `next` begins at `end_ns`, which may lie behind to_ns.
  void gap(std::uint64_t begin_ns, std::uint64_t end_ns, const Interval* next) {
    const bool at_begin = over_.from_window && begin_ns == over_.from_ns;
    const bool at_end = over_.end == SweepEnd::window && end_ns >= over_.to_ns;
    edge_ = at_begin ? (at_end ? IdleEdge::both : IdleEdge::begin) : at_end ? IdleEdge::end : IdleEdge::none;
    std::uint64_t at_ns = begin_ns;
    std::uint64_t launched_before_ns = last_launched_ns_;
    for (const Interval* copy : copies_) {
      if (copy->end_ns <= at_ns) continue;
      if (copy->start_ns >= end_ns) break;
      if (copy->start_ns > at_ns) wait(at_ns, copy->start_ns, copy, launched_before_ns);
      const std::uint64_t copied_ns = std::min(copy->end_ns, end_ns);
      emit(std::max(at_ns, copy->start_ns), copied_ns, IdleCause::copy, next);
      at_ns = copied_ns;
      launched_before_ns = copy->launched_ns;
    }
    if (at_ns < end_ns) wait(at_ns, end_ns, next, launched_before_ns);
    forget_copies(end_ns);
  }

  // Nothing at all was in flight.
  void wait(std::uint64_t begin_ns, std::uint64_t end_ns, const Interval* next,
            std::uint64_t launched_before_ns) {
    if (next == nullptr) {
      const std::uint64_t pending_ns =
          over_.pending == nullptr ? end_ns : std::clamp(over_.pending->launched_ns, begin_ns, end_ns);
      emit(begin_ns, pending_ns, IdleCause::host_bound, nullptr);
      emit(pending_ns, end_ns, IdleCause::unknown, over_.pending);
      return;
    }
    if (next->launched_ns == 0) {
      emit(begin_ns, end_ns, IdleCause::unknown, next);
      return;
    }
    const std::uint64_t launched_ns = std::clamp(next->launched_ns, begin_ns, end_ns);
    std::uint64_t waited_ns = 0;
    if (launched_ns > begin_ns) {
      const std::uint64_t after_ns = launched_before_ns != 0 ? launched_before_ns : begin_ns;
      waited_ns = std::min(launched_ns - begin_ns, site_.waited_ns(*next, after_ns, next->launched_ns));
    }
    emit(begin_ns, begin_ns + waited_ns, IdleCause::synchronising, next);
    emit(begin_ns + waited_ns, launched_ns, IdleCause::host_bound, next);
    emit(launched_ns, end_ns, IdleCause::queued, next);
  }

  void emit(std::uint64_t begin_ns, std::uint64_t end_ns, IdleCause cause, const Interval* next) {
    begin_ns = within(begin_ns);
    end_ns = within(end_ns);
    if (begin_ns < end_ns) site_.on_idle({begin_ns, end_ns, cause, edge_, next});
  }

  const Sweep& over_;
  SweepSite& site_;
  SweepSums& sums_;
  std::uint64_t busy_until_;
  std::uint64_t kernel_until_;
  std::uint64_t last_launched_ns_ = 0;   // of what was busy until then; 0: not known
  std::vector<const Interval*> copies_;  // by start; those that may reach into the next gap
  IdleEdge edge_ = IdleEdge::none;
};

}  // namespace

std::uint64_t sweep(const Sweep& over, SweepSite& site, SweepSums& sums) {
  return Sweeper(over, site, sums).run();
}

}  // namespace pillion::timeline
