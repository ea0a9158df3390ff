// SPDX-License-Identifier: Apache-2.0
#include "inject/wait_channel.h"

#include <algorithm>
#include <array>

namespace pillion::inject {
namespace {

// Parts of the names that Linux 4.4 to 6.18 give to where futex, nanosleep, poll, select, wait, sigsuspend,
// pause, the read of a pipe and epoll_wait sleep. Not among them: writes, which an interruption may cut
// short.
constexpr std::array<std::string_view, 14> kRestarted = {
    "futex_wait",  "futex_do_wait", "nanosleep", "poll_schedule_timeout",
    "do_sys_poll", "do_poll",       "do_select", "do_wait",
    "do_wait4",    "sigsuspend",    "sys_pause", "pipe_read",
    "ep_poll",     "do_epoll_wait"};

}  // namespace

bool restarts_unnoticed(std::string_view channel) {
  return std::any_of(kRestarted.begin(), kRestarted.end(),
                     [channel](std::string_view part) { return channel.find(part) != channel.npos; });
}

bool has_wait_channels(const ProcessFolder& folder) {
  bool any_sleeps = false;
  for (const auto thread : folder.threads()) {
    const std::string task = "task/" + std::to_string(thread) + "/";
    const auto status = folder.read(task + "status");
    if (!status || parse_status(*status).state != 'S') continue;
    const std::string channel = folder.read(task + "wchan").value_or("");
    if (!channel.empty() && channel != "0") return true;
    any_sleeps = true;
  }
  return !any_sleeps;
}

}  // namespace pillion::inject
