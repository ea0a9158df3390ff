// SPDX-License-Identifier: Apache-2.0
#include "discovery/neighbours.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace pillion::discovery {
namespace {

constexpr std::string_view kPause = "1";

// Field 2 and 3 of /proc/PID/stat: the name in parentheses, which may hold anything, and the state.
struct NameAndState {
  std::string name;
  char state = '\0';
};

std::optional<NameAndState> read_stat(const std::filesystem::path& process) {
  std::ifstream file(process / "stat", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto open = text.find('(');
  const auto close = text.rfind(") ");
  if (open == std::string::npos || close == std::string::npos || close < open || close + 2 >= text.size()) {
    return std::nullopt;
  }
  return NameAndState{text.substr(open + 1, close - open - 1), text[close + 2]};
}

bool has_ended(char state) { return state == 'Z' || state == 'X'; }

}  // namespace

std::optional<bool> has_neighbours(const std::string& proc_root) {
  const auto own = read_stat(proc_root + "/self");
  std::error_code error;
  std::filesystem::directory_iterator entry(proc_root, error);
  if (error || !own) return std::nullopt;
  for (; entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    const bool number =
        std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    if (!number || name == kPause) continue;
    const auto seen = read_stat(entry->path());
    if (seen && seen->name != own->name && !has_ended(seen->state)) return true;
  }
  if (error) return std::nullopt;
  return false;
}

bool LastOneHere::look(Clock::time_point now) {
  const auto neighbours = has_neighbours(proc_root_);
  if (!neighbours) return false;
  if (*neighbours) {
    had_neighbours_ = true;
    alone_since_.reset();
    return false;
  }
  if (!had_neighbours_) return false;
  if (!alone_since_) alone_since_ = now;
  return now - *alone_since_ >= patience_;
}

}  // namespace pillion::discovery
