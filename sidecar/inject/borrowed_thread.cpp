// SPDX-License-Identifier: Apache-2.0
#include "inject/borrowed_thread.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <utility>

#include "inject/loader_page.h"
#include "inject/proc_text.h"
#include "inject/shortage.h"
#include "inject/stopped_thread.h"
#include "inject/thread_choice.h"

namespace pillion::inject {
namespace {

constexpr std::uint64_t kStopNs = 1'000'000'000;      // a thread asleep in these calls stops in microseconds
constexpr std::uint64_t kCallNs = 2'000'000'000;      // one system call, or one step of pthread_create
constexpr std::uint64_t kCreationNs = 3'000'000'000;  // all of pthread_create
constexpr long kLookAgainNs = 5'000'000;

constexpr const char* kStoppedText =
    "the process is stopped by a signal; continue it (kill -CONT) and try again";

constexpr std::uint64_t bit(int signal) { return 1ULL << (signal - 1); }
// Left open: what a fault raises, and the two by which libc's threads talk (setuid waits for every thread).
constexpr std::uint64_t kOpenSignals =
    bit(SIGTRAP) | bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGFPE) | bit(SIGSYS) | bit(32) | bit(33);

std::uint64_t mask_field(const std::string& status, const char* field) {
  const std::size_t at = status.find(field);
  return at == std::string::npos ? 0 : std::strtoull(status.c_str() + at + std::strlen(field), nullptr, 16);
}

bool signal_pending(const TargetProcess& target, std::uint32_t tid, std::uint64_t blocked) {
  const std::string status = read_proc_text(target.folder() + "/task/" + std::to_string(tid) + "/status");
  return ((mask_field(status, "\nSigPnd:") | mask_field(status, "\nShdPnd:")) & ~blocked) != 0;
}

// One thread from its stop to its release. Made for a thread that is stopped in the call it was chosen for.
class Loan {
 public:
  Loan(StoppedThread& thread, ThreadImage image, const Examination& found, const TargetProcess& target,
       const StepObserver& observer)
      : thread_(thread),
        image_(std::move(image)),
        found_(found),
        target_(target),
        observer_(observer),
        way_back_(image_, found.functions) {}

  [[nodiscard]] Result<UniqueFd> use() {
    auto file = prepare();
    if (file) file = create_loader(std::move(*file));
    auto restored = restore();
    if (!restored) return tl::make_unexpected(restored.error());
    return file;
  }

 private:
  Result<UniqueFd> prepare() {
    way_back_.set_text(file_name().c_str());
    if (auto written = thread_.write(way_back_.address(), way_back_.bytes()); !written)
      return failed(written);
    observer_(Step::way_back_laid);
    touched_ = true;
    if (auto set = thread_.set_registers(file_call()); !set) return failed(set);
    observer_(Step::first_call_set);
    if (auto set = thread_.set_signal_mask(image_.signal_mask | ~kOpenSignals); !set) return failed(set);
    observer_(Step::signals_blocked);
    auto number = call(file_call());
    if (!number) return failed(number);
    if (*number < 0) {
      return not_granted(in_memory() ? "make a memory file in process" : "make a file in process", -*number);
    }
    number_ = *number;
    observer_(Step::file_made);
    auto file = target_.descriptor(number_);
    if (!file) return file;
    if (auto filled = fill(file->get()); !filled) return failed(filled);
    return file;
  }

  // Its pages are ours: written here, they are charged to us.
  Result<void> fill(int file) const {
    if (::ftruncate(file, kLoaderFileBytes) != 0) return fail_errno("size", "the loader's file");
    // So that the target cannot take away what we map.
    if (in_memory()) (void)::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    const auto code = loader_code();
    const LoaderConstants constants{number_, found_.functions.munmap, found_.functions.pthread_detach};
    const LoaderData data;
    auto done = write_at(file, code.data(), code.size(), 0);
    if (done) done = write_at(file, &constants, sizeof constants, kConstantsOffset);
    if (done) done = write_at(file, &data, sizeof data, kCodeBytes);
    return done;
  }

  Result<UniqueFd> create_loader(UniqueFd file) {
    auto code = call(way_back_.system_call(SYS_mmap, {0, kCodeBytes, PROT_READ | PROT_EXEC, MAP_SHARED,
                                                      static_cast<std::uint64_t>(number_), 0}));
    if (!code) return failed(code);
    if (*code < 0 && *code > -4096) {
      return not_granted("map the loader's code in process", -*code);
    }
    code_ = static_cast<std::uint64_t>(*code);
    observer_(Step::code_mapped);
    if (auto set = thread_.set_registers(way_back_.create_loader(code_)); !set) return failed(set);
    observer_(Step::creation_set);
    auto result = wait_for_creation();
    if (!result) return failed(result);
    if (*result != 0) {
      return not_granted("create a thread in process", *result);
    }
    number_ = -1;  // the loader's from here on
    code_ = 0;
    observer_(Step::loader_created);
    return file;
  }

  Result<std::int64_t> wait_for_creation() {
    const std::uint64_t deadline = monotonic_now_ns() + kCreationNs;
    bool entered = false;
    for (int signal = 0;;) {
      if (auto run = thread_.run_to_call(signal); !run) return tl::make_unexpected(run.error());
      const Stop stop = thread_.wait(deadline);
      if (stop.kind == Stop::Kind::gone) return gone();
      if (stop.kind == Stop::Kind::timeout) {
        return fail("create a thread in process", std::to_string(found_.pid),
                    "the borrowed thread waits for something that another one holds");
      }
      signal = stop.kind == Stop::Kind::signal ? stop.signal : 0;
      if (stop.kind != Stop::Kind::system_call) continue;
      if (!std::exchange(entered, true)) observer_(Step::creation_entered);
      const auto registers = thread_.registers();
      if (!registers) return tl::make_unexpected(registers.error());
      std::int64_t result = 0;
      if (loader_created(*registers, code_, &result)) return result;
    }
  }

  // One system call of the borrowed thread, from its entry to its exit. Handlers of signals may run
  // meanwhile.
  Result<std::int64_t> call(const Registers& registers) {
    if (auto set = thread_.set_registers(registers); !set) return tl::make_unexpected(set.error());
    const std::uint64_t deadline = monotonic_now_ns() + kCallNs;
    int signal = 0;
    for (int stops = 0; stops < 2;) {
      if (auto run = thread_.run_to_call(signal); !run) return tl::make_unexpected(run.error());
      const Stop stop = thread_.wait(deadline);
      if (stop.kind == Stop::Kind::gone) return gone();
      if (stop.kind == Stop::Kind::timeout) {
        return fail("wait for thread", std::to_string(thread_.tid()), "a system call of it does not return");
      }
      signal = stop.kind == Stop::Kind::signal ? stop.signal : 0;
      if (stop.kind != Stop::Kind::system_call) continue;
      const auto now = thread_.registers();
      if (!now) return tl::make_unexpected(now.error());
      if (now->rip != registers.rip + 2 || now->rsp != registers.rsp) continue;  // a handler's
      if (++stops == 2) return static_cast<std::int64_t>(now->rax);
    }
    return 0;
  }

  // Stops it where the kernel restarts calls: not at a call's exit. Then all is put back; the registers last,
  // so that until then the thread would find back by itself.
  Result<void> restore() {
    if (!touched_) return {};
    if (!ended_) undo();
    if (auto asked = thread_.interrupt(); !asked) return asked;
    const std::uint64_t deadline = monotonic_now_ns() + kStopNs;
    for (int signal = 0;;) {
      (void)thread_.run(signal);  // refused while it runs, as after a timeout
      const Stop stop = thread_.wait(deadline);
      if (stop.kind == Stop::Kind::interrupted) break;
      if (stop.kind == Stop::Kind::gone) return gone();
      if (stop.kind == Stop::Kind::timeout)
        return fail("stop thread", std::to_string(thread_.tid()), "it does not stop");
      signal = stop.kind == Stop::Kind::signal ? stop.signal : 0;
    }
    auto done = thread_.set_extended(image_.extended);
    if (done) done = thread_.set_signal_mask(image_.signal_mask);
    if (done) done = thread_.set_registers(image_.registers);
    if (done) observer_(Step::state_restored);
    return done;
  }

  // What was made for a loader that did not come to be.
  void undo() {
    if (code_ != 0) (void)call(way_back_.system_call(SYS_munmap, {code_, kCodeBytes}));
    if (number_ >= 0) (void)call(way_back_.system_call(SYS_close, {static_cast<std::uint64_t>(number_)}));
  }

  [[nodiscard]] bool in_memory() const { return found_.delivery == Delivery::memfd; }

  [[nodiscard]] std::string file_name() const {
    return in_memory() ? "pillion-loader"
                       : found_.file_directory + "/.pillion-loader-" + std::to_string(::getpid());
  }

  [[nodiscard]] Registers file_call() const {
    const std::uint64_t name = way_back_.text_address();
    if (in_memory()) return way_back_.system_call(SYS_memfd_create, {name, MFD_CLOEXEC | MFD_ALLOW_SEALING});
    return way_back_.system_call(SYS_openat, {static_cast<std::uint64_t>(AT_FDCWD), name,
                                              O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0700});
  }

  // By the kernel or libc, to the target; everything is as it was at a call's exit.
  [[nodiscard]] tl::unexpected<Error> not_granted(const char* what, std::int64_t number) const {
    return fail_in_target(what, std::to_string(found_.pid), static_cast<int>(number), found_.pid);
  }

  tl::unexpected<Error> gone() {
    ended_ = true;
    return fail("borrow a thread of process", std::to_string(found_.pid), "it ended meanwhile");
  }

  template <typename T>
  tl::unexpected<Error> failed(const Result<T>& result) {
    if (!result.error().detail.empty())
      ended_ = true;  // it is not at a call's exit: nothing more can be asked of it
    return tl::make_unexpected(result.error());
  }

  StoppedThread& thread_;
  const ThreadImage image_;
  const Examination& found_;
  const TargetProcess& target_;
  const StepObserver& observer_;
  WayBack way_back_;
  std::int64_t number_ = -1;
  std::uint64_t code_ = 0;
  bool touched_ = false;
  bool ended_ = false;
};

Result<void> stop_thread(StoppedThread& thread) {
  if (auto asked = thread.interrupt(); !asked) return asked;
  const std::uint64_t deadline = monotonic_now_ns() + kStopNs;
  for (;;) {
    const Stop stop = thread.wait(deadline);
    switch (stop.kind) {
      case Stop::Kind::interrupted:
        if (stop.signal == 0) return {};
        return fail("borrow thread", std::to_string(thread.tid()), kStoppedText);
      case Stop::Kind::gone:
        return tl::make_unexpected(Error{"stop thread", std::to_string(thread.tid()), ESRCH, {}});
      case Stop::Kind::timeout:
        return fail("stop thread", std::to_string(thread.tid()), "it is held up inside the kernel");
      default:
        if (auto run = thread.run(stop.signal); !run) return run;
    }
  }
}

// Nothing without an error: this thread is of no use, try another.
// Whether the thread is stopped in the call that it was chosen for, or in one that it would have been.
bool may_be_used(const SleepingThread& chosen, const ThreadImage& image, const TargetProcess& target) {
  const SleepingThread seen = call_of(chosen.tid, image.registers);
  // Else it is awake by now, and nobody knows what it holds.
  if (chosen.call_known) return seen.number == chosen.number && seen.stack_pointer == chosen.stack_pointer;
  return suitability(seen) > 0 && stack_has_room(target.maps(), seen.stack_pointer, WayBack::kRoom);
}

Result<std::optional<BorrowedThread>> borrow(const SleepingThread& chosen, const TargetProcess& target,
                                             const Examination& found, const StepObserver& observer) {
  auto thread = StoppedThread::seize(chosen.tid, found.seccomp_mode != 0);
  if (!thread) {
    if (thread.error().number == ESRCH) return std::nullopt;
    return tl::make_unexpected(thread.error());
  }
  observer(Step::seized);
  const std::uint64_t begun = monotonic_now_ns();
  if (auto stopped = stop_thread(*thread); !stopped) {
    if (stopped.error().number == ESRCH) return std::nullopt;
    return tl::make_unexpected(stopped.error());
  }
  auto image = thread->image();
  if (!image) return tl::make_unexpected(image.error());
  if (!may_be_used(chosen, *image, target)) {
    // One that was stopped to see what it sleeps in must not see it.
    if (!chosen.call_known)
      (void)thread->set_registers(
          repair_interrupted(image->registers, signal_pending(target, chosen.tid, image->signal_mask)));
    return std::nullopt;
  }
  observer(Step::stopped);
  image->registers =
      repair_interrupted(image->registers, signal_pending(target, chosen.tid, image->signal_mask));
  auto file = Loan(*thread, std::move(*image), found, target, observer).use();
  thread->detach();
  const std::uint64_t ended = monotonic_now_ns();
  if (!file) return tl::make_unexpected(file.error());
  observer(Step::detached);
  return BorrowedThread{chosen.tid, std::move(*file), ended - begun};
}

}  // namespace

Result<BorrowedThread> borrow_thread(const TargetProcess& target, const Examination& found,
                                     std::uint64_t patience_ns, const StepObserver& observer) {
  const std::uint64_t deadline = monotonic_now_ns() + patience_ns;
  do {
    const std::string maps = target.maps();
    for (const SleepingThread& thread : sleeping_threads("/proc", found.pid)) {
      if (thread.call_known && !stack_has_room(maps, thread.stack_pointer, WayBack::kRoom)) continue;
      auto borrowed = borrow(thread, target, found, observer);
      if (!borrowed) return tl::make_unexpected(borrowed.error());
      if (*borrowed) return std::move(**borrowed);
    }
    if (!target.alive())
      return fail("borrow a thread of process", std::to_string(found.pid), "it ended meanwhile");
    if (is_stopped("/proc", found.pid)) {
      return fail("borrow a thread of process", std::to_string(found.pid), kStoppedText);
    }
    const timespec pause{0, kLookAgainNs};
    ::nanosleep(&pause, nullptr);
  } while (monotonic_now_ns() < deadline);
  return fail("borrow a thread of process", std::to_string(found.pid),
              "no thread of it sleeps in a system call that may be interrupted; try again");
}

}  // namespace pillion::inject
