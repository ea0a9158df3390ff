// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "owned_fd.h"
#include "process_state.h"

namespace pillion::shim {

// Who may connect besides our own uid and 0: comma-separated numbers, copied from the environment at start.
struct AccessLists {
  char uids[256];
  char gids[256];
};

struct PeerCredentials {  // SO_PEERCRED
  std::uint32_t pid;      // 0 when it lives outside our PID namespace
  std::uint32_t uid;
  std::uint32_t gid;
};

[[nodiscard]] bool peer_allowed(const PeerCredentials& peer, std::uint32_t own_uid, const AccessLists& lists);

// The listening socket in the socket directory. One per process, opened on the thread that runs
// InitializeInjection, then the control thread's; remove_socket_name() may also be called by the exiting
// thread.

// An empty directory: an abstract socket (unix(7)) of the same name, which needs no file system and is found
// by those in the same network namespace. Else makes the socket under a temporary name, opens it to everybody
// (the gate is SO_PEERCRED) and renames it: whoever sees the final name can connect. Null, or why it cannot
// be.
[[nodiscard]] const char* open_socket(const char* directory, const ProcessIdentity& self);

// After the program has closed it: the same name again, for a new socket. False when that cannot be, or has
// been done too often.
[[nodiscard]] bool reopen_socket(const ProcessIdentity& self);

// "" while there is none; its path, or '@' and its abstract name.
void copy_socket_address(char* out, std::size_t size);

// For poll(). Negative once the program has closed it behind our back.
[[nodiscard]] int listening_fd();

// Not valid when nobody waits, or when no descriptor is left: then `*starved` is set, and asking again at
// once would spin. The connection does not block.
[[nodiscard]] OwnedFd accept_peer(PeerCredentials* who, bool* starved);

// Unlinks the name if it is still ours. Safe to call twice and from two threads.
void remove_socket_name();

void stop_listening();

// In a forked child: closes the copies and leaves the name alone. `sweep`: the fork fell into an accept or a
// receive, so a copy may exist whose number nobody noted: all descriptors are looked through for connections
// of our socket, and for ring memory.
void close_socket_in_child(bool sweep);

}  // namespace pillion::shim
