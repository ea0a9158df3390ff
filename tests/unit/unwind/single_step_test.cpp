// SPDX-License-Identifier: Apache-2.0
// A snapshot at every instruction: prologues, epilogues, PLT entries, lazy binding, vDSO, throw and catch.
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "abi/pillion_abi.h"
#include "capture.h"
#include "fake_file_source.h"
#include "modules.h"
#include "unwind/unwinder.h"

using namespace pillion;
using namespace pillion::unwind;
using namespace pillion::test;

namespace {

constexpr std::size_t kStackMax = 48 * 1024;
constexpr std::size_t kFramesKept = 96;
constexpr std::size_t kStepsKept = 6000;

struct StepRecord {
  std::array<std::uint64_t, PILLION_REG_COUNT> registers;
  std::size_t stack_bytes;
  std::size_t frame_count;
  std::array<ExpectedFrame, kFramesKept> frames;  // [0] is the interrupted instruction
  std::array<std::byte, kStackMax> stack;
};

StepRecord* g_records = nullptr;
std::size_t g_count = 0;
std::size_t g_steps = 0;
std::uint64_t g_stack_high = 0;
sigjmp_buf g_oracle_lost;
std::size_t g_oracle_faults = 0;
const Mapping* g_oracle_code = nullptr;  // the compiler's unwinder

// The compiler's unwinder reads code at whatever return address it has come to believe in.
void on_fault(int) { siglongjmp(g_oracle_lost, 1); }

// Fills in the frames from the interrupted instruction on and keeps the record if they are all there.
[[gnu::noinline]] void ask_oracle(StepRecord& record) {
  std::array<ExpectedFrame, kFramesKept> all;
  const std::size_t seen = backtrace_raw(all);
  std::size_t first = 0;
  while (first < seen && all[first].is_return)
    ++first;  // the trap's own frames end at the interrupted instruction
  record.frame_count = seen - first;
  std::copy(all.begin() + static_cast<std::ptrdiff_t>(first), all.begin() + static_cast<std::ptrdiff_t>(seen),
            record.frames.begin());
  if (record.frame_count > 0 && seen < kFramesKept) ++g_count;
}

// Runs between any two instructions: no allocation, no lock.
void on_trap(int, siginfo_t*, void* raw) {
  const auto& registers = static_cast<ucontext_t*>(raw)->uc_mcontext.gregs;
  ++g_steps;
  if (g_count == kStepsKept || g_steps % 7 != 0) return;
  StepRecord& record = g_records[g_count];
  record.registers = {
      static_cast<std::uint64_t>(registers[REG_RIP]), static_cast<std::uint64_t>(registers[REG_RSP]),
      static_cast<std::uint64_t>(registers[REG_RBP]), static_cast<std::uint64_t>(registers[REG_RBX]),
      static_cast<std::uint64_t>(registers[REG_R12]), static_cast<std::uint64_t>(registers[REG_R13]),
      static_cast<std::uint64_t>(registers[REG_R14]), static_cast<std::uint64_t>(registers[REG_R15])};
  // Not within the compiler's unwinder: where it is about to switch to a handler it can fault over its own
  // frame.
  const std::uint64_t rip = record.registers[PILLION_REG_RIP];
  if (rip >= g_oracle_code->start && rip < g_oracle_code->end) return;
  const std::uint64_t rsp = record.registers[PILLION_REG_RSP];
  record.stack_bytes = g_stack_high - rsp;
  if (record.stack_bytes > kStackMax) return;
  if (!copy_memory(rsp, {record.stack.data(), record.stack_bytes})) return;
  if (sigsetjmp(g_oracle_lost, 1) != 0) {
    record.frame_count = 0;
    ++g_count;
    ++g_oracle_faults;
    return;
  }
  ask_oracle(record);
}

void set_stepping(bool on) {
  if (on) {
    asm volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "cc", "memory");
  } else {
    asm volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "cc", "memory");
  }
}

void leaf_of_steps(void*) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
}

void run_stepped() {
  g_stack_high = own_stack_high();
  set_stepping(true);
  for (unsigned seed = 0; seed < 12; ++seed) descend_from_here(seed * 31, 6, leaf_of_steps, nullptr);
  set_stepping(false);
}

RawSnapshot snapshot_of(const StepRecord& record) {
  RawSnapshot snapshot;
  snapshot.registers = record.registers;
  snapshot.stack_start = record.registers[PILLION_REG_RSP];
  snapshot.stack.assign(record.stack.begin(),
                        record.stack.begin() + static_cast<std::ptrdiff_t>(record.stack_bytes));
  return snapshot;
}

}  // namespace

TEST_CASE("a snapshot at any instruction unwinds as the compiler's unwinder does") {
  g_records =
      static_cast<StepRecord*>(::mmap(nullptr, kStepsKept * sizeof(StepRecord), PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  REQUIRE(g_records != MAP_FAILED);
  shape_modules();
  const auto maps = MapsTable::parse(own_maps());
  g_oracle_code = maps.find(reinterpret_cast<std::uint64_t>(&_Unwind_Backtrace));
  REQUIRE(g_oracle_code != nullptr);
  std::array<ExpectedFrame, 8> warm_up;
  REQUIRE(backtrace_raw(warm_up) > 0);
  struct sigaction action {};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO;
  struct sigaction before {};
  ::sigaction(SIGTRAP, &action, &before);
  struct sigaction fault_action {};
  fault_action.sa_handler = on_fault;
  struct sigaction fault_before {};
  ::sigaction(SIGSEGV, &fault_action, &fault_before);
  std::thread thread(run_stepped);
  thread.join();
  ::sigaction(SIGTRAP, &before, nullptr);
  ::sigaction(SIGSEGV, &fault_before, nullptr);
  REQUIRE(g_count > 1000);

  FileTable files;
  FakeFileSource source;
  Unwinder unwinder(files, source);
  std::size_t different = 0;
  std::size_t lost_base = 0;
  for (std::size_t i = 0; i < g_count; ++i) {
    const StepRecord& record = g_records[i];
    if (record.frame_count == 0) {
      UNSCOPED_INFO("no expectation at pc " << std::hex << record.registers[0] << ", "
                                            << maps.find(record.registers[0])->path << " offset "
                                            << record.registers[0] - maps.find(record.registers[0])->start +
                                                   maps.find(record.registers[0])->offset);
      (void)unwinder.unwind(snapshot_of(record), maps, 1);
      continue;
    }
    const std::span expected(g_records[i].frames.data(), record.frame_count);
    locate(expected);
    const auto stack = unwinder.unwind(snapshot_of(record), maps, 1).stack;
    // A few instructions of functions that realign the stack have their frame address in r10 only, which a
    // snapshot does not carry; the walk must say that it stopped.
    if (stack.frames.size() == 1 && stack.ending == StackEnding::no_cfi) {
      ++lost_base;
      continue;
    }
    const auto same_address = [](const UnwoundFrame& frame, const ExpectedFrame& other) {
      return frame.address == other.address;
    };
    if (stack.ending == StackEnding::rooted && std::ranges::equal(stack.frames, expected, same_address))
      continue;
    if (++different < 10)
      UNSCOPED_INFO("pc " << std::hex << record.registers[0] << " address " << expected[0].address
                          << " ending " << static_cast<int>(stack.ending) << ", frames " << std::dec
                          << stack.frames.size() << " of " << expected.size());
  }
  CAPTURE(g_count, g_steps, unwinder.counters().full_restarts);
  CHECK(g_oracle_faults <= g_count / 200);
  CHECK(different == 0);
  // Lazy binding's resolver keeps its frame address in rbx.
  CHECK(unwinder.counters().full_restarts > 0);
  CHECK(lost_base < g_count / 200);
}
