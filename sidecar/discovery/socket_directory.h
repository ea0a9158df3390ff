// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/event_loop.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "discovery/abstract_sockets.h"
#include "discovery/shim_address.h"

namespace pillion::discovery {

class SocketDirectoryObserver {
 public:
  virtual ~SocketDirectoryObserver() = default;
  virtual void on_found(const ShimAddress& address) = 0;
  virtual void on_lost(const ShimAddress& address) = 0;  // the name has gone; a connection to it may live on
};

struct SocketDirectoryOptions {
  std::string path;
  // Shims without a directory are looked for in this table, /proc/net/unix, if they live in this PID
  // namespace (its inode). Empty: none are.
  std::string abstract_table;
  std::uint64_t abstract_pid_namespace = 0;
  std::size_t entries_max = 16'384;  // names read in one scan
  std::size_t sockets_max = 1'024;   // shims followed at once
  std::chrono::milliseconds rescan{
      1'000};                            // also how long a change can go unseen where inotify does not work
  std::chrono::milliseconds settle{10};  // between a change and the scan it causes: floods cost one scan
};

// What the last scan saw; for /status, and the text of "no shim".
struct SocketDirectoryReport {
  bool exists = false;
  std::string error;            // why the directory could not be read, empty when it could
  std::size_t sockets = 0;      // followed
  std::size_t stale = 0;        // of these: nobody listens
  std::size_t other_names = 0;  // not a shim's name
  std::size_t not_sockets = 0;  // a shim's name on a file, link, FIFO, directory
  std::size_t over_sockets_max = 0;
  bool over_entries_max = false;  // there were more names than were read
  std::uint64_t scans = 0;
};

// Follows the sockets of a directory that may come later, go, come back, and hold anything. Lives on the
// loop's thread, calls its observer there; the observer may call back into it.
class SocketDirectory {
 public:
  // Fails only when the kernel gives no inotify instance; a missing directory is waited for.
  [[nodiscard]] static Result<std::unique_ptr<SocketDirectory>> create(EventLoop& loop,
                                                                       SocketDirectoryOptions options,
                                                                       SocketDirectoryObserver& observer);
  ~SocketDirectory();
  SocketDirectory(const SocketDirectory&) = delete;
  SocketDirectory& operator=(const SocketDirectory&) = delete;

  // Scans at once, then whenever something changed and each `rescan`.
  void start();

  // Nobody listens at `path`, or not yet: between bind and listen a connect is refused as well. It is found
  // again after 0.1 s, then twice as long each time, up to 30 s, while its name is there. The sixth time in
  // turn the name is removed, where this process may, unless it has become another socket's.
  void mark_stale(const std::string& path);
  void mark_alive(const std::string& path);  // somebody answered: the waits begin anew

  // Finds `path` again after `delay`, if its name is still there: a session with it ended, or it was busy.
  void find_again(const std::string& path, std::chrono::milliseconds delay);

  [[nodiscard]] const SocketDirectoryReport& report() const { return report_; }

 private:
  struct Entry {
    ShimAddress address;
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t seen_in_scan = 0;
    std::uint32_t stale_count = 0;
    EventLoop::TimerId timer = 0;
  };

  SocketDirectory(EventLoop& loop, SocketDirectoryOptions options, SocketDirectoryObserver& observer,
                  UniqueFd inotify);
  void on_inotify();
  void follow_directory();
  void scan();
  void read_entries(int directory_fd);
  void follow(const ShimAddress& address, std::uint64_t device, std::uint64_t inode);
  void consider(int directory_fd, const char* name, unsigned char type);
  void drop_unseen();
  static void remove_name(const Entry& entry);
  void announce_after(Entry& entry, const std::string& path, std::chrono::milliseconds delay);

  EventLoop& loop_;
  const SocketDirectoryOptions options_;
  SocketDirectoryObserver& observer_;
  UniqueFd inotify_;
  int inotify_watch_ = -1;
  EventLoop::TimerId rescan_timer_ = 0;
  EventLoop::TimerId settle_timer_ = 0;
  std::map<std::string, Entry> entries_;  // by path
  SocketDirectoryReport report_;
  std::vector<ShimAddress> found_;  // of the scan in progress, told when it is over
};

}  // namespace pillion::discovery
