// SPDX-License-Identifier: Apache-2.0
#include "inject/shim_socket.h"

#include "abi/pillion_abi.h"
#include "base/printable.h"

namespace pillion::inject {

std::string find_shim_socket(const ProcessFolder& folder, std::uint32_t thread, std::uint32_t inner_pid,
                             std::uint64_t start_time) {
  const std::uint64_t pid_namespace = folder.name_space("pid");
  const std::string name = PILLION_SOCKET_PREFIX + std::to_string(pid_namespace) + "-" +
                           std::to_string(inner_pid) + "-" + std::to_string(start_time) +
                           PILLION_SOCKET_SUFFIX;
  const auto text = folder.read("task/" + std::to_string(thread) + "/net/unix");
  if (!text) return {};
  const std::size_t at = text->find(name);
  if (at == std::string::npos || at == 0) return {};
  if ((*text)[at - 1] == '@') return "@" + name;
  // The line ends in the path, the only field with a slash. It is the one at bind: the shim renames its
  // socket from .NAME.new once others may connect.
  const std::size_t line = text->rfind('\n', at) + 1;
  const std::size_t path = text->find('/', line);
  const std::size_t folder_end = text->rfind('/', at);
  if (path == std::string::npos || path > at) return {};
  return printable(std::string_view(*text).substr(path, folder_end + 1 - path)) + name;
}

}  // namespace pillion::inject
