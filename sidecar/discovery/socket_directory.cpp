// SPDX-License-Identifier: Apache-2.0
#include "discovery/socket_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace pillion::discovery {
namespace {

constexpr std::chrono::milliseconds kStaleFirst{100};
constexpr std::chrono::milliseconds kStaleLast{30'000};
constexpr std::uint32_t kStaleRemove =
    6;  // refused so often, which takes 3 s: nobody will listen there again

// No IN_MODIFY or IN_ACCESS: what happens inside files is of no interest.
constexpr std::uint32_t kChanges = IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF |
                                   IN_MOVE_SELF | IN_ATTRIB | IN_ONLYDIR;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

}  // namespace

Result<std::unique_ptr<SocketDirectory>> SocketDirectory::create(EventLoop& loop,
                                                                 SocketDirectoryOptions options,
                                                                 SocketDirectoryObserver& observer) {
  UniqueFd inotify(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify.valid()) return fail_errno("create inotify", options.path);
  std::unique_ptr<SocketDirectory> made(
      new SocketDirectory(loop, std::move(options), observer, std::move(inotify)));
  auto watched =
      loop.watch(made->inotify_.get(), EPOLLIN, [self = made.get()](std::uint32_t) { self->on_inotify(); });
  if (!watched) return tl::make_unexpected(watched.error());
  return made;
}

SocketDirectory::SocketDirectory(EventLoop& loop, SocketDirectoryOptions options,
                                 SocketDirectoryObserver& observer, UniqueFd inotify)
    : loop_(loop), options_(std::move(options)), observer_(observer), inotify_(std::move(inotify)) {}

SocketDirectory::~SocketDirectory() {
  loop_.unwatch(inotify_.get());
  loop_.cancel(rescan_timer_);
  loop_.cancel(settle_timer_);
  for (auto& [path, entry] : entries_) loop_.cancel(entry.timer);
}

void SocketDirectory::start() {
  if (rescan_timer_ != 0) return;
  rescan_timer_ = loop_.every(options_.rescan, [this] { scan(); });
  scan();
}

void SocketDirectory::on_inotify() {
  // What changed does not matter, the scan finds out; one read per round so that a flood cannot hold the
  // loop.
  alignas(inotify_event) std::array<char, 65'536> events;
  (void)!::read(inotify_.get(), events.data(), events.size());
  if (settle_timer_ != 0 || rescan_timer_ == 0) return;
  settle_timer_ = loop_.after(options_.settle, [this] {
    settle_timer_ = 0;
    scan();
  });
}

// The same directory keeps its watch number; another directory under the same path gets a new one.
void SocketDirectory::follow_directory() {
  const int watch = ::inotify_add_watch(inotify_.get(), options_.path.c_str(), kChanges);
  if (watch == inotify_watch_) return;
  if (inotify_watch_ >= 0) ::inotify_rm_watch(inotify_.get(), inotify_watch_);
  inotify_watch_ = watch;
}

void SocketDirectory::scan() {
  follow_directory();  // before reading: what is made in between is then in the scan or in an event
  SocketDirectoryReport fresh;
  fresh.scans = report_.scans + 1;
  report_ = fresh;
  const UniqueFd directory(::open(options_.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK));
  if (directory.valid()) {
    report_.exists = true;
    read_entries(directory.get());
  } else {
    report_.exists = errno != ENOENT && errno != ENOTDIR;
    report_.error = std::strerror(errno);
  }
  if (!options_.abstract_table.empty()) {
    for (const AbstractSocket& socket : list_abstract_sockets(options_.abstract_table)) {
      if (socket.address.pid_namespace == options_.abstract_pid_namespace)
        follow(socket.address, 0, socket.inode);
    }
  }
  drop_unseen();
  report_.sockets = entries_.size();
  report_.stale = static_cast<std::size_t>(std::count_if(
      entries_.begin(), entries_.end(), [](const auto& item) { return item.second.stale_count > 0; }));
  const auto found = std::exchange(found_, {});
  for (const ShimAddress& address : found) observer_.on_found(address);
}

void SocketDirectory::read_entries(int directory_fd) {
  UniqueFd own(::fcntl(directory_fd, F_DUPFD_CLOEXEC, 0));
  const std::unique_ptr<DIR, CloseDirectory> directory(::fdopendir(own.get()));
  if (!directory) {
    report_.error = std::strerror(errno);
    return;
  }
  (void)own.release();
  std::size_t read = 0;
  while (const dirent* entry = ::readdir(directory.get())) {
    if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
    if (++read > options_.entries_max) {
      report_.over_entries_max = true;
      return;
    }
    consider(directory_fd, entry->d_name, entry->d_type);
  }
}

void SocketDirectory::consider(int directory_fd, const char* name, unsigned char type) {
  auto address = parse_socket_name(options_.path, name);
  if (!address) {
    ++report_.other_names;
    return;
  }
  struct stat status {};
  const bool may_be_socket = type == DT_SOCK || type == DT_UNKNOWN;
  if (!may_be_socket || ::fstatat(directory_fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISSOCK(status.st_mode)) {
    ++report_.not_sockets;
    return;
  }
  follow(*address, status.st_dev, status.st_ino);
}

void SocketDirectory::follow(const ShimAddress& address, std::uint64_t device, std::uint64_t inode) {
  auto found = entries_.find(address.path);
  if (found == entries_.end()) {
    if (entries_.size() >= options_.sockets_max) {
      ++report_.over_sockets_max;
      return;
    }
    found = entries_.emplace(address.path, Entry{address, device, inode}).first;
    found_.push_back(address);
  } else if (found->second.inode != inode || found->second.device != device) {
    // The same process bound anew: after exec it has the same name.
    loop_.cancel(found->second.timer);
    found->second = Entry{address, device, inode};
    found_.push_back(address);
  }
  found->second.seen_in_scan = report_.scans;
}

void SocketDirectory::drop_unseen() {
  // With more names than may be read, one that was not seen may still be there.
  if (report_.over_entries_max) return;
  std::vector<ShimAddress> lost;
  for (auto item = entries_.begin(); item != entries_.end();) {
    if (item->second.seen_in_scan == report_.scans) {
      ++item;
      continue;
    }
    loop_.cancel(item->second.timer);
    lost.push_back(std::move(item->second.address));
    item = entries_.erase(item);
  }
  for (const ShimAddress& address : lost) observer_.on_lost(address);
}

void SocketDirectory::mark_stale(const std::string& path) {
  const auto found = entries_.find(path);
  if (found == entries_.end()) return;
  const auto delay = kStaleFirst * (1u << std::min(found->second.stale_count, 9u));
  if (found->second.stale_count++ == 0) ++report_.stale;
  // A name is published once its socket listens, so a socket that refuses is a dead program's. Where we may,
  // we remove it, or programs that are killed would fill the directory; where not, it is ignored.
  if (found->second.stale_count >= kStaleRemove) remove_name(found->second);
  announce_after(found->second, path, std::min<std::chrono::milliseconds>(delay, kStaleLast));
}

void SocketDirectory::remove_name(const Entry& entry) {
  struct stat status {};
  if (::lstat(entry.address.path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  // Another socket by now: a program that called exec has the same name.
  if (status.st_dev != entry.device || status.st_ino != entry.inode) return;
  (void)::unlink(entry.address.path.c_str());
}

void SocketDirectory::mark_alive(const std::string& path) {
  const auto found = entries_.find(path);
  if (found == entries_.end() || found->second.stale_count == 0) return;
  found->second.stale_count = 0;
  --report_.stale;
}

void SocketDirectory::find_again(const std::string& path, std::chrono::milliseconds delay) {
  const auto found = entries_.find(path);
  if (found != entries_.end()) announce_after(found->second, path, delay);
}

void SocketDirectory::announce_after(Entry& entry, const std::string& path, std::chrono::milliseconds delay) {
  loop_.cancel(entry.timer);
  entry.timer = loop_.after(delay, [this, path] {
    const auto found = entries_.find(path);
    if (found == entries_.end()) return;
    found->second.timer = 0;
    const ShimAddress address = found->second.address;
    observer_.on_found(address);
  });
}

}  // namespace pillion::discovery
