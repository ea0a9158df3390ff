// SPDX-License-Identifier: Apache-2.0
#include "discovery/process_survey.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/printable.h"
#include "base/unique_fd.h"

namespace pillion::discovery {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

enum class MapsLook { read, denied, gone };

struct Libraries {
  bool cuda = false;
  bool shim = false;
};

bool names_library(std::string_view line, std::string_view library) {
  const std::size_t slash = line.rfind('/');
  if (slash == std::string_view::npos) return false;
  line.remove_prefix(slash + 1);
  constexpr std::string_view kMemory = "memfd:";  // injected
  if (line.starts_with(kMemory)) line.remove_prefix(kMemory.size());
  return line.starts_with(library);
}

void note_line(std::string_view line, Libraries& libraries) {
  // Not libcudart, which begins alike and may be linked into programs that never use a GPU.
  libraries.cuda = libraries.cuda || names_library(line, "libcuda.so");
  libraries.shim = libraries.shim || names_library(line, "libpillion.so");
}

// Reads in pieces; a line longer than the buffer cannot occur in real maps and loses its middle.
MapsLook read_maps(int process_fd, std::size_t bytes_max, std::size_t& bytes, Libraries& libraries) {
  const UniqueFd maps(::openat(process_fd, "maps", O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!maps.valid()) return errno == EACCES || errno == EPERM ? MapsLook::denied : MapsLook::gone;
  std::array<char, 16'384> buffer;
  std::size_t kept = 0;
  bytes = 0;
  while (bytes < bytes_max) {
    const ssize_t got = ::read(maps.get(), buffer.data() + kept, buffer.size() - kept);
    if (got < 0) return errno == EACCES || errno == EPERM ? MapsLook::denied : MapsLook::gone;
    if (got == 0) break;
    bytes += static_cast<std::size_t>(got);
    std::string_view text(buffer.data(), kept + static_cast<std::size_t>(got));
    for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
      note_line(text.substr(0, end), libraries);
      text.remove_prefix(end + 1);
    }
    if (text.size() == buffer.size()) text = {};
    kept = text.size();
    std::memmove(buffer.data(), text.data(), kept);
  }
  note_line(std::string_view(buffer.data(), kept), libraries);
  return MapsLook::read;
}

std::string read_comm(int process_fd) {
  const UniqueFd file(::openat(process_fd, "comm", O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  std::array<char, 64> buffer;
  const ssize_t got = file.valid() ? ::read(file.get(), buffer.data(), buffer.size()) : -1;
  if (got <= 0) return "?";
  std::string_view text(buffer.data(), static_cast<std::size_t>(got));
  if (text.ends_with('\n')) text.remove_suffix(1);
  return printable(text);
}

// Those with the shim and those without are looked for apart, so neither takes the other's room.
void keep(std::vector<SurveyedProcess>& list, SurveyedProcess process, const SurveyLimits& limits) {
  const auto alike = std::count_if(list.begin(), list.end(), [&](const SurveyedProcess& other) {
    return other.has_shim == process.has_shim;
  });
  if (static_cast<std::size_t>(alike) < limits.listed_max) list.push_back(std::move(process));
}

// Returns the bytes of maps that it read.
std::size_t look_at(int proc_fd, const char* name, std::uint32_t pid, const SurveyLimits& limits,
                    ProcessSurvey& survey) {
  const UniqueFd process_fd(::openat(proc_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status {};
  if (!process_fd.valid() || ::fstat(process_fd.get(), &status) != 0) return 0;
  ++survey.processes;
  SurveyedProcess process{pid, status.st_uid, {}, false};
  Libraries libraries;
  std::size_t bytes = 0;
  const MapsLook look = read_maps(process_fd.get(), limits.maps_bytes_max, bytes, libraries);
  if (bytes >= limits.maps_bytes_max) survey.cut = true;
  if (look == MapsLook::denied) {
    ++survey.unreadable_count;
    process.comm = read_comm(process_fd.get());
    keep(survey.unreadable, std::move(process), limits);
  } else if (libraries.cuda) {
    ++(libraries.shim ? survey.cuda_with_shim : survey.cuda_without_shim);
    process.comm = read_comm(process_fd.get());
    process.has_shim = libraries.shim;
    keep(survey.cuda, std::move(process), limits);
  }
  return bytes;
}

std::string list_text(const std::vector<SurveyedProcess>& list, std::size_t all, bool with_shim) {
  std::string text;
  std::size_t named = 0;
  for (const SurveyedProcess& process : list) {
    if (process.has_shim != with_shim) continue;
    text += (named++ == 0 ? "" : ", ") + std::to_string(process.pid) + " (" + process.comm + ", uid " +
            std::to_string(process.uid) + ")";
  }
  if (all > named) text += " and " + std::to_string(all - named) + " more";
  return text;
}

}  // namespace

ProcessSurvey survey_processes(const std::string& proc_root, const SurveyLimits& limits) {
  ProcessSurvey survey;
  const std::unique_ptr<DIR, CloseDirectory> proc(::opendir(proc_root.c_str()));
  if (!proc) {
    survey.error = proc_root + ": " + std::strerror(errno);
    return survey;
  }
  std::size_t all_bytes = 0;
  while (const dirent* entry = ::readdir(proc.get())) {
    const std::string_view name = entry->d_name;
    std::uint32_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc{} || end != name.data() + name.size()) continue;
    if (survey.processes >= limits.processes_max || all_bytes >= limits.all_maps_bytes_max) {
      survey.cut = true;
      break;
    }
    all_bytes += look_at(::dirfd(proc.get()), entry->d_name, pid, limits, survey);
  }
  return survey;
}

std::string ProcessSurvey::text() const {
  if (!error.empty()) return "cannot list processes: " + error;
  std::string out = "saw " + std::to_string(processes) + (processes == 1 ? " process" : " processes");
  if (cut) out += " (not all: limit reached)";
  if (cuda_without_shim > 0) {
    out += "; CUDA without the shim: " + list_text(cuda, cuda_without_shim, false) +
           ": start it with CUDA_INJECTION64_PATH naming libpillion.so, or load the shim with -inject";
  }
  if (cuda_with_shim > 0) {
    out += "; CUDA with the shim but no usable socket here: " + list_text(cuda, cuda_with_shim, true) +
           ": is it held by another sidecar, does it use another PILLION_SOCKET_DIR, or was that directory "
           "missing "
           "when it called cuInit? Then it has to be started again";
  }
  if (unreadable_count > 0) {
    out += "; not readable: " + list_text(unreadable, unreadable_count, false) +
           ": needs the same uid with no more capabilities than here, or CAP_SYS_PTRACE";
  }
  if (cuda_without_shim + cuda_with_shim + unreadable_count == 0) {
    out += "; none has libcuda mapped: has the workload started, and does the pod set shareProcessNamespace?";
  }
  return out;
}

}  // namespace pillion::discovery
