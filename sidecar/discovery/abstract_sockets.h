// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "discovery/shim_address.h"

namespace pillion::discovery {

// A shim that listens without a directory, as those do that were injected into a process which was not
// prepared. Its path is '@' and its name.
struct AbstractSocket {
  ShimAddress address;
  std::uint64_t inode = 0;
};

// From the text of /proc/net/unix: the shims that listen in this network namespace (a pod is one). Names may
// be anybody's, as in a directory: they prove nothing.
[[nodiscard]] std::vector<AbstractSocket> parse_abstract_sockets(std::string_view table);

// Reads the table; empty when it cannot be read. At most 4 MiB of it.
[[nodiscard]] std::vector<AbstractSocket> list_abstract_sockets(const std::string& table_path);

}  // namespace pillion::discovery
