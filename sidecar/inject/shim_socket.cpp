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
  const std::size_t at = text->find("/" + name + "\n");
  if (at == std::string::npos) return {};
  // The line ends in the path, which is the only field with a slash.
  const std::size_t line = text->rfind('\n', at) + 1;
  const std::size_t path = text->find('/', line);
  return printable(std::string_view(*text).substr(path, at + 1 + name.size() - path));
}

}  // namespace pillion::inject
