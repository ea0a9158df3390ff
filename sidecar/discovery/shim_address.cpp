// SPDX-License-Identifier: Apache-2.0
#include "discovery/shim_address.h"

#include <algorithm>
#include <charconv>

#include "abi/pillion_abi.h"

namespace pillion::discovery {
namespace {

template <typename Number>
bool take_number(std::string_view& text, Number& number) {
  if (text.empty() || text.front() < '1' || text.front() > '9') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

}  // namespace

std::optional<ShimAddress> parse_socket_name(const std::string& directory, std::string_view name) {
  ShimAddress address;
  std::string_view rest = name;
  const bool fits = take(rest, PILLION_SOCKET_PREFIX) && take_number(rest, address.pid_namespace) &&
                    take(rest, "-") && take_number(rest, address.pid) && take(rest, "-") &&
                    take_number(rest, address.start_time) && rest == PILLION_SOCKET_SUFFIX;
  if (!fits) return std::nullopt;
  address.path = directory + "/" + std::string(name);
  return address;
}

bool TargetSelection::matches(const ShimAddress& address, std::uint32_t seen_pid) const {
  const std::uint32_t pid = seen_pid != 0 ? seen_pid : address.pid;
  return everything() || std::find(pids_.begin(), pids_.end(), pid) != pids_.end();
}

}  // namespace pillion::discovery
