// SPDX-License-Identifier: Apache-2.0
#include "commands/workload.h"

#include <poll.h>
#include <spawn.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

extern "C" {  // glibc 2.36 forgot it in the header
#include <sys/pidfd.h>
}

namespace pillion::commands {
namespace {

std::vector<std::string> merged_environment(const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const bool replaced = std::any_of(added.begin(), added.end(),
                                      [&](const auto& pair) { return text.starts_with(pair.first + "="); });
    if (!replaced) merged.push_back(text);
  }
  for (const auto& [name, value] : added) merged.push_back(name + "=" + value);
  return merged;
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (const auto& word : words)
    result.push_back(const_cast<char*>(word.c_str()));  // posix_spawn's old signature
  result.push_back(nullptr);
  return result;
}

// posix_spawn, because this process has threads; it also says when the program cannot be executed.
Result<pid_t> spawn(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                    const sigset_t& mask) {
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t defaults;
  ::sigemptyset(&defaults);
  for (const int ignored_by_us : {SIGPIPE, SIGXFSZ}) ::sigaddset(&defaults, ignored_by_us);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setsigmask(&attributes, &mask);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, command[0].c_str(), nullptr, &attributes, pointers(command).data(),
                                   pointers(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) return tl::make_unexpected(Error{"start", command[0], error, {}});
  return pid;
}

}  // namespace

std::string WorkloadEnd::text() const {
  if (!by_signal) return "exited with status " + std::to_string(number);
  const char* name = ::sigabbrev_np(number);
  return "was ended by signal " + std::to_string(number) +
         (name == nullptr ? "" : " (" + std::string(name) + ")");
}

Result<std::unique_ptr<Workload>> Workload::start(
    const std::vector<std::string>& command,
    const std::vector<std::pair<std::string, std::string>>& environment, const sigset_t& mask,
    std::function<void()> ended) {
  UniqueFd leave(::eventfd(0, EFD_CLOEXEC));
  if (!leave.valid()) return fail_errno("create", "eventfd");
  const auto pid = spawn(command, merged_environment(environment), mask);
  if (!pid) return tl::make_unexpected(pid.error());
  std::unique_ptr<Workload> made(new Workload(*pid, std::move(ended)));
  made->leave_ = std::move(leave);
  made->process_.reset(::pidfd_open(*pid, 0));
  if (!made->process_.valid()) return fail_errno("watch", command[0]);
  made->thread_ = std::thread([workload = made.get()] { workload->watch(); });
  return made;
}

Workload::~Workload() {
  if (!thread_.joinable()) return;
  ::eventfd_write(leave_.get(), 1);
  thread_.join();
}

std::optional<WorkloadEnd> Workload::end() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

bool Workload::wait(std::stop_token stop) const {
  std::unique_lock lock(mutex_);
  return changed_.wait(lock, std::move(stop), [this] { return end_.has_value(); });
}

bool Workload::wait_for(std::chrono::milliseconds limit) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return end_.has_value(); });
}

void Workload::send(int signal) const { ::pidfd_send_signal(process_.get(), signal, nullptr, 0); }

void Workload::watch() {
  while (true) {
    pollfd waited[] = {{leave_.get(), POLLIN, 0}, {process_.get(), POLLIN, 0}};
    if (::poll(waited, 2, -1) < 0 && errno != EINTR) return;
    if (waited[1].revents != 0) break;
    if (waited[0].revents != 0) return;
  }
  siginfo_t info{};
  ::waitid(P_PIDFD, static_cast<id_t>(process_.get()), &info, WEXITED);
  {
    const std::lock_guard lock(mutex_);
    end_ = WorkloadEnd{info.si_code != CLD_EXITED, info.si_status};
  }
  changed_.notify_all();
  ended_();
}

}  // namespace pillion::commands
