// SPDX-License-Identifier: Apache-2.0
#include "session/file_channel.h"

#include <condition_variable>
#include <mutex>
#include <optional>

#include "session/session.h"

namespace pillion::session {
namespace {

constexpr const char* kOperation = "get file";

// Shared by the waiting thread and the loop: an answer that comes too late finds it, and the fd is closed
// with it.
struct Waiter {
  std::mutex mutex;
  std::condition_variable answered;
  std::optional<Result<ReceivedFile>> answer;

  void set(Result<ReceivedFile> result) {
    {
      const std::lock_guard lock(mutex);
      answer.emplace(std::move(result));
    }
    answered.notify_one();
  }
};

}  // namespace

Result<ReceivedFile> FileChannel::get(std::uint64_t mapping_start, std::chrono::milliseconds deadline) {
  if (loop_.in_loop_thread()) return fail(kOperation, "", "would wait for its own thread");
  const auto waiter = std::make_shared<Waiter>();
  const bool posted = loop_.post([self = shared_from_this(), waiter, mapping_start, deadline] {
    if (self->session_ == nullptr) {
      waiter->set(fail(kOperation, "", "session ended"));
      return;
    }
    self->session_->get_file(mapping_start, deadline,
                             [waiter](Result<ReceivedFile> result) { waiter->set(std::move(result)); });
  });
  if (!posted) return fail(kOperation, "", "the sidecar is stopping or overloaded");
  std::unique_lock lock(waiter->mutex);
  if (!waiter->answered.wait_for(lock, deadline, [&] { return waiter->answer.has_value(); })) {
    return fail(kOperation, "", "no answer in time");
  }
  return std::move(*waiter->answer);
}

}  // namespace pillion::session
