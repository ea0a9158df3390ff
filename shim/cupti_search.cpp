// SPDX-License-Identifier: Apache-2.0
#include "cupti_search.h"

#include <fcntl.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cstring>

#include "bounded_text.h"

namespace pillion::shim {
namespace {

constexpr std::uint32_t kUnknownMinor = 99;

const char* base_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

struct MappedSearch {
  char* out;
  std::size_t size;
};

// Runs under the dynamic linker's lock: copies the name and leaves.
int visit_object(dl_phdr_info* info, std::size_t, void* user) {
  if (info->dlpi_name == nullptr || !is_cupti_name(base_name(info->dlpi_name))) return 0;
  const auto* search = static_cast<MappedSearch*>(user);
  if (std::strlen(info->dlpi_name) >= search->size) return 0;
  BoundedText(search->out, search->size).add(info->dlpi_name);
  return 1;
}

// struct linux_dirent64, which glibc does not declare for getdents64 before 2.30.
struct DirectoryEntry {
  std::uint64_t inode;
  std::int64_t offset;
  std::uint16_t size;
  std::uint8_t type;
  char name[1];
};

// Calls visit(name) for each entry; opendir would allocate.
template <typename Visit>
void each_entry(const char* folder, Visit visit) {
  const long fd = syscall(SYS_openat, AT_FDCWD, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0) return;
  alignas(8) char buffer[4096];
  for (;;) {
    const long got = syscall(SYS_getdents64, fd, buffer, sizeof(buffer));
    if (got <= 0) break;
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const DirectoryEntry*>(buffer + at);
      visit(entry->name);
      at += entry->size;
    }
  }
  syscall(SYS_close, fd);
}

// The major in libcupti.so.13 or, for CUDA 11, major and minor in libcupti.so.11.8. 0 for other names and for
// full file names such as libcupti.so.2025.3.1, whose link has the SONAME.
std::uint32_t version_of_soname(const char* name) {
  constexpr char kPrefix[] = "libcupti.so.";
  if (std::strncmp(name, kPrefix, sizeof(kPrefix) - 1) != 0) return 0;
  return parse_cuda_version(name + sizeof(kPrefix) - 1);
}

}  // namespace

std::uint32_t parse_cuda_version(const char* text) {
  std::uint32_t numbers[2] = {0, kUnknownMinor};
  int digits[2] = {0, 0};
  int part = 0;
  for (; *text != '\0'; ++text) {
    if (*text == '.') {
      if (++part > 1) break;  // a patch level does not matter
      numbers[part] = 0;
      continue;
    }
    if (*text < '0' || *text > '9' || ++digits[part] > 2) return 0;
    numbers[part] = numbers[part] * 10 + static_cast<std::uint32_t>(*text - '0');
  }
  if (numbers[0] == 0 || (part > 0 && digits[1] == 0)) return 0;
  return numbers[0] * 1000 + numbers[1] * 10;
}

bool is_cupti_name(const char* name) {
  if (std::strncmp(name, "libcupti", 8) != 0) return false;
  return std::strncmp(name + 8, ".so", 3) == 0 || (name[8] == '-' && std::strstr(name, ".so") != nullptr);
}

bool find_mapped_cupti(char* out, std::size_t size) {
  MappedSearch search{out, size};
  return dl_iterate_phdr(visit_object, &search) != 0;
}

void find_shipped_cupti(const char* folder, CuptiCandidates* out) {
  each_entry(folder, [&](const char* name) {
    if (const std::uint32_t version = version_of_soname(name)) out->add(version, folder, name);
  });
  char versions[256];
  BoundedText(versions).add(folder).add("/cupti");
  each_entry(versions, [&](const char* subfolder) {
    const std::uint32_t version = parse_cuda_version(subfolder);
    if (version == 0) return;
    char path[256];
    BoundedText(path).add(versions).add("/").add(subfolder);
    each_entry(path, [&](const char* name) {
      if (version_of_soname(name) != 0) out->add(version, path, name);
    });
  });
}

void CuptiCandidates::add(std::uint32_t cuda_version, const char* folder, const char* name) {
  if (size_ == kMax || std::strlen(folder) + 1 + std::strlen(name) >= sizeof(CuptiCandidate::path)) return;
  CuptiCandidate& entry = entries_[size_++];
  entry.cuda_version = cuda_version;
  BoundedText(entry.path).add(folder).add("/").add(name);
}

void CuptiCandidates::order_for(std::uint32_t driver_version) {
  const std::uint32_t driver = driver_version != 0 ? driver_version : ~0u;
  // Not above the driver: by version downwards. Above it: behind those, upwards. A minor that is not known is
  // taken for one that fits.
  const auto rank = [driver](const CuptiCandidate& entry) -> std::uint32_t {
    std::uint32_t version = entry.cuda_version;
    if (version % 1000 / 10 == kUnknownMinor && version / 1000 == driver / 1000) version = driver;
    if (version <= driver) return 1'000'000 + (version < 999'999 ? version : 999'999);
    return version / 1000 == driver / 1000 ? 999'999 - version : 0u;
  };
  for (std::size_t at = 1; at < size_; ++at) {
    const CuptiCandidate entry = entries_[at];
    std::size_t place = at;
    for (; place > 0 && rank(entries_[place - 1]) < rank(entry); --place)
      entries_[place] = entries_[place - 1];
    entries_[place] = entry;
  }
}

}  // namespace pillion::shim
