// SPDX-License-Identifier: Apache-2.0
#include "inject/process_folder.h"

#include <dirent.h>
#include <fcntl.h>

#include <charconv>
#include <memory>

namespace pillion::inject {
namespace {

constexpr std::uint64_t kKernelThreadFlag = 0x00200000;  // PF_KTHREAD, include/linux/sched.h
constexpr std::size_t kEntriesMax = 65'536;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// The next number of a list that blanks separate.
template <typename Number>
std::optional<Number> take_number(std::string_view& text, int base = 10) {
  const std::size_t start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos) return std::nullopt;
  text.remove_prefix(start);
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

template <typename Number>
Number number_of(std::string_view text, int base = 10) {
  return take_number<Number>(text, base).value_or(0);
}

void take_ids(std::string_view text, std::array<std::uint32_t, 4>& ids) {
  for (auto& id : ids) id = take_number<std::uint32_t>(text).value_or(0);
}

}  // namespace

ProcessStatus parse_status(std::string_view text) {
  ProcessStatus status;
  std::optional<std::uint32_t> filters;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, colon);
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
    if (key == "Name") status.name = value;
    if (key == "State" && !value.empty()) status.state = value.front();
    if (key == "Tgid") status.thread_group = number_of<std::uint32_t>(value);
    if (key == "PPid") status.parent = number_of<std::uint32_t>(value);
    if (key == "TracerPid") status.tracer = number_of<std::uint32_t>(value);
    if (key == "Uid") take_ids(value, status.uids);
    if (key == "Gid") take_ids(value, status.gids);
    if (key == "CapPrm") status.permitted = number_of<std::uint64_t>(value, 16);
    if (key == "CapEff") status.effective = number_of<std::uint64_t>(value, 16);
    if (key == "NoNewPrivs") status.no_new_privileges = number_of<std::uint32_t>(value) != 0;
    if (key == "Seccomp") status.seccomp = number_of<std::uint32_t>(value);
    if (key == "Seccomp_filters") filters = number_of<std::uint32_t>(value);
    if (key != "NSpid") continue;
    while (const auto pid = take_number<std::uint32_t>(value)) status.pids.push_back(*pid);
  }
  status.seccomp_filters = filters.value_or(status.seccomp == 2 ? 1 : 0);
  return status;
}

std::optional<ProcessStat> parse_stat(std::string_view text) {
  // The name may hold blanks and brackets; it ends at the last bracket.
  const std::size_t bracket = text.rfind(')');
  if (bracket == std::string_view::npos) return std::nullopt;
  text.remove_prefix(bracket + 1);
  ProcessStat stat;
  for (int field = 3; field <= 28; ++field) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    const std::string_view word = text.substr(0, text.find_first_of(" \n"));
    if (word.empty() && field <= 22) return std::nullopt;
    if (field == 9) stat.kernel_thread = (number_of<std::uint64_t>(word) & kKernelThreadFlag) != 0;
    if (field == 22) stat.start_time = number_of<std::uint64_t>(word);
    if (field == 28) stat.start_stack = number_of<std::uint64_t>(word);
    text.remove_prefix(word.size());
  }
  return stat;
}

Result<ProcessFolder> ProcessFolder::open(const std::string& proc_root, std::uint32_t pid) {
  std::string path = proc_root + "/" + std::to_string(pid);
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) return fail_errno("open", path);
  return ProcessFolder(std::move(fd), std::move(path));
}

Result<std::string> ProcessFolder::read(const std::string& name) const {
  const UniqueFd file(::openat(fd_.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.valid()) return fail_errno("open", path_ + "/" + name);
  std::string text;
  std::array<char, 16'384> buffer;
  while (text.size() < kFileBytesMax) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0) return fail_errno("read", path_ + "/" + name);
    if (got == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

Result<std::string> ProcessFolder::link(const std::string& name) const {
  std::array<char, 4'096> buffer;
  const ssize_t length = ::readlinkat(fd_.get(), name.c_str(), buffer.data(), buffer.size());
  if (length < 0) return fail_errno("read link", path_ + "/" + name);
  return std::string(buffer.data(), static_cast<std::size_t>(length));
}

std::uint64_t ProcessFolder::name_space(const std::string& kind) const {
  const auto target = link("ns/" + kind);
  if (!target) return 0;
  std::string_view text = *target;
  if (!text.starts_with(kind + ":[")) return 0;
  text.remove_prefix(kind.size() + 2);
  return number_of<std::uint64_t>(text);
}

std::vector<std::uint32_t> ProcessFolder::threads() const { return numbered_entries(fd_.get(), "task"); }

std::vector<std::uint32_t> numbered_entries(int folder_fd, const char* name) {
  UniqueFd fd(::openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::vector<std::uint32_t> numbers;
  if (!fd.valid()) return numbers;
  const std::unique_ptr<DIR, CloseDirectory> folder(::fdopendir(fd.get()));
  if (!folder) return numbers;
  (void)fd.release();
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string_view text = entry->d_name;
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc{} && end == text.data() + text.size()) numbers.push_back(number);
    if (numbers.size() == kEntriesMax) break;
  }
  return numbers;
}

}  // namespace pillion::inject
