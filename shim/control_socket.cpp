// SPDX-License-Identifier: Apache-2.0
#include "control_socket.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "abi/pillion_abi.h"
#include "bounded_text.h"
#include "own_proc.h"
#include "shim_log.h"
#include "system_calls.h"

namespace pillion::shim {
namespace {

constexpr int kBacklog = 8;
constexpr int kSweepMax = 4096;
constexpr std::uint32_t kReopensMax = 64;

OwnedFd directory_fd;
OwnedFd listener;
char directory_path[sizeof(sockaddr_un::sun_path)];
char socket_name[96];  // within the directory
std::uint32_t reopens = 0;
sockaddr_un bound_address;  // what connections of ours call their own address
socklen_t abstract_bytes;   // of the address of an abstract socket, else 0
std::uint64_t name_device;
std::uint64_t name_inode;
std::atomic<bool> name_exists{false};

// bind() cannot take a directory descriptor, and a path under it is at most 107 bytes.
bool set_address(const char* directory, const char* name) {
  bound_address = sockaddr_un{};
  bound_address.sun_family = AF_UNIX;
  BoundedText path(bound_address.sun_path);
  path.add(directory).add("/").add(name);
  return !path.full();
}

// chmod to 0666 of the inode that we bound, whatever the name has been made to lead to since: the directory
// is often writable by everybody.
bool open_to_all(const char* temporary) {
  const int fd = ::openat(directory_fd.number, temporary, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat status {};
  const bool done = file_status(fd, &status) && S_ISSOCK(status.st_mode) && status.st_uid == ::geteuid() &&
                    change_mode(fd, 0666);
  name_device = status.st_dev;
  name_inode = status.st_ino;
  ::close(fd);
  return done;
}

void name_socket(const ProcessIdentity& self) {
  BoundedText(socket_name)
      .add(PILLION_SOCKET_PREFIX)
      .add(self.pid_namespace)
      .add("-")
      .add(self.pid)
      .add("-")
      .add(self.start_time)
      .add(PILLION_SOCKET_SUFFIX);
}

const char* publish_abstract() {
  bound_address = sockaddr_un{};
  bound_address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(socket_name);
  std::memcpy(bound_address.sun_path + 1, socket_name, length);
  abstract_bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  const auto* address = reinterpret_cast<const sockaddr*>(&bound_address);
  if (::bind(listener.number, address, abstract_bytes) != 0) return "the name of the control socket is taken";
  return ::listen(listener.number, kBacklog) == 0 ? nullptr : "cannot listen on the socket";
}

const char* publish(const char* directory) {
  char temporary[112];
  BoundedText(temporary).add(".").add(socket_name).add(".new");
  if (!set_address(directory, temporary)) return "the socket directory's path is too long";
  ::unlinkat(directory_fd.number, temporary, 0);  // of a program that this process was before it called exec
  const auto* address = reinterpret_cast<const sockaddr*>(&bound_address);
  if (::bind(listener.number, address, sizeof bound_address) != 0)
    return "cannot bind in the socket directory";
  if (!open_to_all(temporary) || ::listen(listener.number, kBacklog) != 0 ||
      ::renameat(directory_fd.number, temporary, directory_fd.number, socket_name) != 0) {
    ::unlinkat(directory_fd.number, temporary, 0);
    return "cannot publish the socket";
  }
  name_exists.store(true, std::memory_order_release);
  return nullptr;
}

// Ring memory that a peer has sent: a memory file by the name that the sidecar gives it (pillion-events and
// so on).
bool is_received_memory(int fd) {
  constexpr char kName[] = "/memfd:pillion-";
  char name[24];
  char target[64];
  BoundedText(name).add("fd/").add(static_cast<std::uint64_t>(fd));
  return read_own_proc_link(name, target, sizeof target) != 0 &&
         std::strncmp(target, kName, sizeof kName - 1) == 0;
}

void sweep_received() {
  for (int fd = 3; fd < kSweepMax; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) continue;
    if (is_received_memory(fd)) {
      ::close(fd);
      continue;
    }
    sockaddr_un address{};
    socklen_t size = sizeof address;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) continue;
    if (address.sun_family != AF_UNIX || size <= offsetof(sockaddr_un, sun_path)) continue;
    const bool ours =
        abstract_bytes != 0
            ? size == abstract_bytes && std::memcmp(&address, &bound_address, size) == 0
            : std::strncmp(address.sun_path, bound_address.sun_path, sizeof address.sun_path) == 0;
    if (ours) ::close(fd);
  }
}

}  // namespace

bool peer_allowed(const PeerCredentials& peer, std::uint32_t own_uid, const AccessLists& lists) {
  return peer.uid == own_uid || peer.uid == 0 || list_holds(lists.uids, peer.uid) ||
         list_holds(lists.gids, peer.gid);
}

const char* open_socket(const char* directory, const ProcessIdentity& self) {
  if (directory != directory_path) BoundedText(directory_path).add(directory);
  const bool abstract = *directory == '\0';
  if (!abstract) {
    const int opened = ::open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (opened < 0) return "no socket directory";
    directory_fd = OwnedFd::adopt(opened);
  }
  name_socket(self);
  listener = OwnedFd::adopt(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const char* problem = !listener.valid() ? "no socket can be made"
                        : abstract        ? publish_abstract()
                                          : publish(directory);
  if (problem != nullptr) {
    listener.close();
    directory_fd.close();
  }
  return problem;
}

void copy_socket_address(char* out, std::size_t size) {
  BoundedText text(out, size);
  if (!listener.valid()) return;
  if (abstract_bytes != 0) {
    text.add("@").add(socket_name);
    return;
  }
  const char* slash = std::strrchr(bound_address.sun_path, '/');
  text.add(bound_address.sun_path, static_cast<std::size_t>(slash - bound_address.sun_path) + 1)
      .add(socket_name);
}

int listening_fd() {
  if (!listener.valid()) return -1;
  if (listener.still_ours()) return listener.number;
  log_line("the program closed the control socket");
  listener.number = -1;
  return -1;
}

bool reopen_socket(const ProcessIdentity& self) {
  if (reopens++ >= kReopensMax) return false;
  remove_socket_name();
  const char* problem = open_socket(directory_path, self);
  log_line(problem == nullptr ? "made a new control socket" : "the control socket is gone:",
           problem == nullptr ? "" : problem);
  return problem == nullptr;
}

OwnedFd accept_peer(PeerCredentials* who, bool* starved) {
  const int fd = listening_fd();
  if (fd < 0) return {};
  OwnedFd peer = OwnedFd::adopt(::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!peer.valid()) {
    *starved = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
    return peer;
  }
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(peer.number, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    peer.close();
    return peer;
  }
  *who = {static_cast<std::uint32_t>(credentials.pid), credentials.uid, credentials.gid};
  return peer;
}

void remove_socket_name() {
  if (!name_exists.exchange(false, std::memory_order_acq_rel) || !directory_fd.still_ours()) return;
  struct stat status {};
  if (!name_status(directory_fd.number, socket_name, &status)) return;
  if (status.st_dev != name_device || status.st_ino != name_inode) return;
  ::unlinkat(directory_fd.number, socket_name, 0);
}

void stop_listening() { listener.close(); }

void close_socket_in_child(bool sweep) {
  name_exists.store(false, std::memory_order_relaxed);
  if (sweep && bound_address.sun_family == AF_UNIX) sweep_received();
  listener.close();
  directory_fd.close();
}

}  // namespace pillion::shim
