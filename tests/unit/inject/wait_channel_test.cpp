// SPDX-License-Identifier: Apache-2.0
#include "inject/wait_channel.h"

#include <catch2/catch_test_macros.hpp>

#include "proc_fixture.h"

namespace pillion::inject {

TEST_CASE("a thread is interrupted by its wait channel only where the call is begun anew", "[threads]") {
  for (const char* channel : {"futex_wait_queue_me", "futex_wait_queue", "futex_do_wait", "hrtimer_nanosleep",
                              "do_nanosleep", "poll_schedule_timeout.constprop.0", "do_select", "do_wait",
                              "sigsuspend", "__x64_sys_pause", "pipe_read", "anon_pipe_read", "ep_poll"})
    CHECK(restarts_unnoticed(channel));
  for (const char* channel : {"0", "", "pipe_write", "anon_pipe_write", "pipe_wait", "sk_stream_wait_memory",
                              "do_sigtimedwait", "read_events", "inet_csk_accept"})
    CHECK_FALSE(restarts_unnoticed(channel));
}

TEST_CASE("a kernel without wait channels is told by a thread that sleeps without one", "[threads]") {
  FakeProc proc;
  proc.add({.pid = 7});
  const auto folder = ProcessFolder::open(proc.root(), 7);
  REQUIRE(folder.has_value());
  const std::string channel = proc.root() + "/7/task/7/wchan";
  CHECK_FALSE(has_wait_channels(*folder));
  FakeProc::write(channel, "0");
  CHECK_FALSE(has_wait_channels(*folder));
  FakeProc::write(channel, "ep_poll");
  CHECK(has_wait_channels(*folder));
  FakeProc::write(channel, "0");
  proc.add({.pid = 7, .state = 'R'});
  CHECK(has_wait_channels(*folder));
}

}  // namespace pillion::inject
