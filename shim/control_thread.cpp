// SPDX-License-Identifier: Apache-2.0
#include "control_thread.h"

#include <poll.h>
#include <sys/prctl.h>

#include <atomic>

#include "control_socket.h"
#include "shim_log.h"
#include "system_calls.h"
#include "thread_start.h"

namespace pillion::shim {
namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10;
constexpr int kAcceptsPerWake = 8;
constexpr std::uint64_t kStarvedNs = 500'000'000;
constexpr int kSettleMs = 1'000;

constinit ControlSession session;
ProcessIdentity self{};         // set before the thread starts
std::uint64_t listen_again_ns;  // while no descriptor is left for a connection
bool settled;                   // nothing came for kSettleMs

// Up while a descriptor may exist that no variable of ours names yet; a child forked then has to search.
std::atomic<bool> receiving{false};

std::atomic<bool> exiting{false};
std::atomic<bool> busy{false};                // not asleep: the exit has something to wait for
std::atomic<std::uint32_t> exit_finished{0};  // futex word
std::atomic<std::uint32_t> control_tid{0};

void accept_all() {
  for (int i = 0; i < kAcceptsPerWake; ++i) {
    PeerCredentials who{};
    bool starved = false;
    const OwnedFd fd = accept_peer(&who, &starved);
    if (starved) listen_again_ns = monotonic_ns() + kStarvedNs;
    if (!fd.valid()) return;
    session.connect(fd, who);
  }
}

void wait_and_serve() {
  pollfd watched[2] = {};
  const std::uint64_t now = monotonic_ns();
  const bool starved = listen_again_ns > now;
  watched[0].fd = starved ? -1 : listening_fd();
  watched[0].events = POLLIN;
  watched[1].fd = session.peer().fd();
  watched[1].events = static_cast<short>(session.peer().wants_to_write() ? POLLIN | POLLOUT : POLLIN);
  int patience = session.patience_ms(now);
  if (starved && patience < 0) patience = static_cast<int>(kStarvedNs / 1'000'000);
  // A program that closes our descriptors while it starts may do so between our look at them and the poll,
  // which then waits for a stranger's: one more look, before the poll that has no end.
  if (!settled && patience < 0) patience = kSettleMs;
  const int ready = ::poll(watched, 2, patience);
  settled = ready == 0;
  if (ready <= 0) return;
  receiving.store(true, std::memory_order_seq_cst);
  // An exit from here on waits for what we make of it; the loop sets it right afterwards.
  busy.store(true, std::memory_order_seq_cst);
  if (watched[1].revents != 0) {
    session.peer().pump();
    session.on_readable();
  }
  if (watched[0].revents != 0) accept_all();
  receiving.store(false, std::memory_order_release);
}

// False once there is no socket, and none is to be.
bool keep_listening() {
  if (listening_fd() >= 0) return true;
  if (exiting.load(std::memory_order_seq_cst)) return false;
  // Programs close what they did not open and go on as before: daemons after their start, others before an
  // exec that fails.
  receiving.store(true, std::memory_order_seq_cst);
  const bool listening = reopen_socket(self);
  receiving.store(false, std::memory_order_release);
  return listening;
}

void* control_main(void*) {
  ::prctl(PR_SET_NAME, "pillion-control");
  control_tid.store(this_tid(), std::memory_order_relaxed);
  bool told = false;
  while (keep_listening() || session.peer().open() || !session.asleep()) {
    wait_and_serve();
    // Either the exit sees busy, or we see exiting: both are sequentially consistent.
    busy.store(!session.asleep(), std::memory_order_seq_cst);
    if (exiting.load(std::memory_order_seq_cst) && !told) {
      told = true;
      stop_listening();
      session.begin_exit();
    }
    session.advance(monotonic_ns());
    if (told && session.asleep()) break;
  }
  if (session.peer().open()) session.lose_peer();
  remove_socket_name();
  exit_finished.store(1, std::memory_order_release);
  futex_wake(&exit_finished);
  return nullptr;
}

}  // namespace

bool start_control_thread(const ControlConfig& config) {
  session.configure(config);
  self = config.self;
  return start_thread(control_main, kStackBytes);
}

void stop_for_exit(std::uint32_t wait_ms) {
  if (exiting.exchange(true, std::memory_order_seq_cst)) return;
  remove_socket_name();
  if (!busy.load(std::memory_order_seq_cst) || this_tid() == control_tid.load(std::memory_order_relaxed))
    return;
  const std::uint64_t deadline = monotonic_ns() + std::uint64_t{wait_ms} * 1'000'000u;
  for (std::uint64_t now = monotonic_ns(); now < deadline; now = monotonic_ns()) {
    if (exit_finished.load(std::memory_order_acquire) != 0) return;
    futex_wait(&exit_finished, 0, deadline - now);
  }
}

void forget_in_child() {
  session.close_in_child();
  close_socket_in_child(receiving.load(std::memory_order_acquire));
}

}  // namespace pillion::shim
