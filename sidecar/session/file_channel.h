// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/event_loop.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace pillion::session {

class Session;

// A file that the workload has mapped, opened by its shim. A regular file by fstat, read-only; its content
// may change or shrink at any time: read it, never map it.
struct ReceivedFile {
  UniqueFd fd;
  bool other_inode = false;  // the path leads to another file than the mapped one by now
};

// Asks a session for files from another thread. Shared; outlives the session, not the loop.
class FileChannel : public std::enable_shared_from_this<FileChannel> {
 public:
  FileChannel(EventLoop& loop, Session* session) : loop_(loop), session_(session) {}

  // Blocks until the answer, at most `deadline`. `mapping_start` as in the maps text. Any thread but the
  // loop's; an error when the session has ended or the shim cannot open the file (Error::number is its
  // errno).
  [[nodiscard]] Result<ReceivedFile> get(std::uint64_t mapping_start, std::chrono::milliseconds deadline);

 private:
  friend class Session;
  void end() { session_ = nullptr; }

  EventLoop& loop_;
  Session* session_;  // touched on the loop's thread only
};

}  // namespace pillion::session
