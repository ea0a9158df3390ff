// SPDX-License-Identifier: Apache-2.0
#include "unwind/unwinder.h"

#include <algorithm>

#include "unwind/registers.h"

namespace pillion::unwind {
namespace {

constexpr std::uint64_t kUserFirst = 1ULL << 16;  // below lies nothing (mmap_min_addr)
constexpr std::uint64_t kUserEnd = 1ULL << 47;

// A read at `address` failed: why the walk ends there.
StackEnding ending_of_read(const RawSnapshot& snapshot, const StackView& stack, std::uint64_t address) {
  if (snapshot.faulted) return StackEnding::faulted;
  const bool more_existed = snapshot.truncated || snapshot.foreign;
  return more_existed && stack.is_past_end(address) ? StackEnding::truncated_snapshot : StackEnding::bad_cfa;
}

}  // namespace

// One stack on its way. References live as long as the call to unwind().
struct Unwinder::Walk {
  const RawSnapshot& snapshot;
  const MapsTable& maps;
  AddressSpace& space;
  StackView stack;
  bool all_registers;
  Registers registers{};
  bool is_return = false;
  unsigned signal_frames = 0;
  UnwindOutcome outcome{};
  std::vector<std::uint64_t> stack_pointers{};  // of each frame, where Python frames want to know

  Walk(const RawSnapshot& raw, const MapsTable& table, AddressSpace& addresses, bool all)
      : snapshot(raw), maps(table), space(addresses), stack(raw.stack_start, raw.stack), all_registers(all) {
    registers.values = raw.registers;
    registers.known = all ? kAllRegisters : kWalkRegisters;
    outcome.stack.frames.reserve(128);
    if (!raw.python.empty()) stack_pointers.reserve(128);
  }

  Step end(StackEnding ending) {
    outcome.stack.ending = ending;
    return Step::end;
  }
  Step end_read(std::uint64_t address) { return end(ending_of_read(snapshot, stack, address)); }

  Step end_unmapped() {
    const std::uint64_t pc = registers.rip();
    // The top of a stack that somebody made by hand often holds a zero.
    if (pc == 0 && is_return && snapshot.foreign) return end(StackEnding::fiber);
    outcome.needs_newer_maps = pc >= kUserFirst && pc < kUserEnd;
    return end(StackEnding::no_mapping);
  }

  // The caller's registers are in place. Stacks grow down, so a caller's rsp is higher; only a signal may
  // have switched stacks.
  Step arrive(std::uint64_t old_rsp, bool was_signal) {
    if (was_signal) {
      if (++signal_frames > kSignalFramesMax) return end(StackEnding::loop);
    } else if (registers.rsp() <= old_rsp) {
      return end(registers.rsp() == old_rsp ? StackEnding::loop : StackEnding::bad_cfa);
    }
    is_return = !was_signal;
    return Step::next;
  }
};

UnwindOutcome Unwinder::unwind(const RawSnapshot& snapshot, const MapsTable& maps, TargetId target) {
  AddressSpace& space = space_of(target);
  space.update(maps);
  Walk quick(snapshot, maps, space, false);
  Step last = walk(quick);
  UnwindOutcome outcome = std::move(quick.outcome);
  if (last == Step::restart) {
    ++counters_.full_restarts;
    Walk full(snapshot, maps, space, true);
    walk(full);
    outcome = std::move(full.outcome);
    splice(snapshot, full, outcome);
  } else {
    splice(snapshot, quick, outcome);
  }
  ++counters_.endings[static_cast<std::size_t>(outcome.stack.ending)];
  counters_.frames += outcome.stack.frames.size();
  return outcome;
}

void Unwinder::splice(const RawSnapshot& snapshot, const Walk& walk, UnwindOutcome& outcome) {
  if (snapshot.python.empty()) return;
  const NativeStack native{outcome.stack.frames, walk.stack_pointers};
  outcome.stack.frames = splice_python(native, snapshot, interpreters_, outcome.python);
  if (!outcome.python.greenlet) return;
  outcome.stack.ending = StackEnding::fiber;
  outcome.needs_newer_maps = false;  // the walk ended in what is left out
}

Unwinder::Step Unwinder::walk(Walk& walk) {
  auto& frames = walk.outcome.stack.frames;
  for (;;) {
    if (frames.size() >= kFramesMax) return walk.end(StackEnding::loop);
    const std::uint64_t pc = walk.registers.rip();
    const std::uint64_t lookup = pc - (walk.is_return ? 1 : 0);
    if (!walk.snapshot.python.empty()) walk.stack_pointers.push_back(walk.registers.rsp());
    const Region* region = walk.space.find(lookup, walk.maps, files_);
    if (region == nullptr) return walk.end_unmapped();
    frames.push_back({region->file, region->file == 0 ? pc : pc - region->bias, walk.is_return});
    if (region->file == 0) ++counters_.frames_without_file;
    const Step taken = step(walk, *region, lookup);
    if (taken != Step::next) return taken;
  }
}

Unwinder::Step Unwinder::step(Walk& walk, const Region& region, std::uint64_t lookup) {
  if (region.vsyscall) {  // its functions are a system call and a return
    Row row;
    row.cfa = CfaRule::rsp;
    row.cfa_offset = 8;
    return step_by_row(walk, row);
  }
  if (region.cfi == nullptr) return step_by_frame_pointer(walk, false);
  const std::uint64_t address = lookup - region.bias;
  const Row row = row_of(region, address);
  if (row.root) return walk.end(StackEnding::rooted);
  if (row.cfa == CfaRule::none) return step_by_frame_pointer(walk, row.planted);
  if (!walk.all_registers && row.cfa != CfaRule::slow) return step_by_row(walk, row);
  return step_by_rules_of(walk, region, address, row);
}

Unwinder::Step Unwinder::step_by_row(Walk& walk, const Row& row) {
  Registers& registers = walk.registers;
  const std::uint64_t rsp = registers.rsp();
  const auto offset = static_cast<std::uint64_t>(static_cast<std::int64_t>(row.cfa_offset));
  const bool uses_rbp =
      row.cfa == CfaRule::rbp || row.cfa == CfaRule::deref_rbp || row.rbp == RbpRule::at_rbp;
  if (uses_rbp && !registers.knows(PILLION_REG_RBP)) return walk.end(StackEnding::bad_cfa);
  std::uint64_t cfa = 0;
  switch (row.cfa) {
    case CfaRule::rsp:
      cfa = rsp + offset;
      break;
    case CfaRule::rbp:
      cfa = registers.rbp() + offset;
      break;
    case CfaRule::deref_rbp:
      if (!walk.stack.read(registers.rbp() + offset, cfa)) return walk.end_read(registers.rbp() + offset);
      break;
    case CfaRule::plt:
      cfa = rsp + 8 + ((registers.rip() & 15) >= offset ? 8 : 0);
      break;
    case CfaRule::slow:
    case CfaRule::none:
      return walk.end(StackEnding::no_cfi);
  }
  std::uint64_t rip = 0;
  if (!walk.stack.read(cfa - 8, rip)) return walk.end_read(cfa - 8);
  restore_rbp(walk, row, cfa);
  registers.set(PILLION_REG_RIP, rip);
  registers.set(PILLION_REG_RSP, cfa);
  return walk.arrive(rsp, row.signal);
}

void Unwinder::restore_rbp(Walk& walk, const Row& row, std::uint64_t cfa) {
  Registers& registers = walk.registers;
  if (row.rbp == RbpRule::same) return;
  if (row.rbp == RbpRule::undefined) return registers.forget(PILLION_REG_RBP);
  const std::uint64_t base = row.rbp == RbpRule::at_cfa ? cfa : registers.rbp();
  const std::uint64_t slot = base + static_cast<std::uint64_t>(static_cast<std::int64_t>(row.rbp_offset));
  // Below the stack pointer: an epilogue has popped it, and the register holds the caller's value again.
  if (slot < registers.rsp()) return;
  std::uint64_t rbp = 0;
  if (!walk.stack.read(slot, rbp)) return registers.forget(PILLION_REG_RBP);
  registers.set(PILLION_REG_RBP, rbp);
}

Unwinder::Step Unwinder::step_by_rules_of(Walk& walk, const Region& region, std::uint64_t address,
                                          const Row& row) {
  const std::uint64_t rsp = walk.registers.rsp();
  StepResult result;
  if (row.cfa == CfaRule::slow) {
    result = step_by_rules(slow_rules_[static_cast<std::size_t>(row.cfa_offset)], walk.stack, walk.registers,
                           walk.all_registers);
  } else if (const auto rules = region.cfi->rules_at(address)) {
    result = step_by_rules(*rules, walk.stack, walk.registers, walk.all_registers);
  }
  switch (result.status) {
    case ExpressionStatus::ok:
      return walk.arrive(rsp, row.signal);
    case ExpressionStatus::unreadable:
      return walk.end_read(result.address);
    case ExpressionStatus::unknown_register:
      if (!walk.all_registers) return Step::restart;
      break;
    case ExpressionStatus::unsupported:
      break;
  }
  // There is frame information but its inputs are lost: a guess by frame pointer would look as good as a
  // fact.
  return walk.end(StackEnding::no_cfi);
}

Unwinder::Step Unwinder::step_by_frame_pointer(Walk& walk, bool planted) {
  // A stack that makecontext() or a fiber library prepared: the return address was put there, not pushed by a
  // call.
  if (planted && walk.is_return) return walk.end(StackEnding::fiber);
  const Registers& now = walk.registers;
  const std::uint64_t rbp = now.rbp();
  Registers caller;
  if (!now.knows(PILLION_REG_RBP) || rbp < now.rsp() || rbp % 8 != 0) return walk.end(StackEnding::no_cfi);
  std::uint64_t rip = 0;
  std::uint64_t saved = 0;
  if (!walk.stack.read(rbp, saved) || !walk.stack.read(rbp + 8, rip) || walk.maps.find(rip - 1) == nullptr)
    return walk.end(StackEnding::no_cfi);
  caller.set(PILLION_REG_RIP, rip);
  caller.set(PILLION_REG_RSP, rbp + 16);
  caller.set(PILLION_REG_RBP, saved);
  const std::uint64_t rsp = now.rsp();
  walk.registers = caller;
  ++counters_.frame_pointer;
  return walk.arrive(rsp, false);
}

Row Unwinder::row_of(const Region& region, std::uint64_t address) {
  if (const Row* known = rows_.find(region.file, address)) return *known;
  ++counters_.rows_computed;
  Row row = region.cfi->row_at(address);
  if (row.cfa == CfaRule::slow) {
    if (slow_rules_.size() >= kSlowRulesMax) {
      slow_rules_.clear();
      rows_.clear();
    }
    if (auto rules = region.cfi->rules_at(address)) {
      row.cfa_offset = static_cast<std::int32_t>(slow_rules_.size());
      slow_rules_.push_back(std::move(*rules));
    } else {
      row.cfa = CfaRule::none;
    }
  }
  rows_.insert(region.file, address, row);
  return row;
}

AddressSpace& Unwinder::space_of(TargetId target) {
  const auto found = targets_.find(target);
  if (found != targets_.end()) {
    found->second.used = ++uses_;
    return found->second.space;
  }
  if (targets_.size() >= kTargetsMax) {
    const auto oldest = std::min_element(
        targets_.begin(), targets_.end(),
        [](const auto& left, const auto& right) { return left.second.used < right.second.used; });
    targets_.erase(oldest);
  }
  return targets_.emplace(target, TargetSpace{AddressSpace(target), ++uses_}).first->second.space;
}

void Unwinder::forget(TargetId target) {
  targets_.erase(target);
  files_.forget(target);
}

UnwindCounters Unwinder::counters() const {
  UnwindCounters counters = counters_;
  counters.rows_evicted = rows_.evicted();
  counters.files = files_.counters();
  return counters;
}

}  // namespace pillion::unwind
