// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/file_table.h"
#include "sample_functions.h"

namespace pillion::test {

// The loaded sample library: facts with addresses of the file instead of the process.
struct LoadedSample {
  explicit LoadedSample(const char* path) {
    void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      std::fprintf(stderr, "%s\n", ::dlerror());
      std::abort();
    }
    link_map* map = nullptr;
    ::dlinfo(library, RTLD_DI_LINKMAP, &map);
    base = map->l_addr;
    facts = reinterpret_cast<DescribeSample>(::dlsym(library, "describe_sample"))();
    exported = reinterpret_cast<std::uint64_t>(::dlsym(library, "exported_c_function")) - base;
  }
  [[nodiscard]] std::uint64_t address(const void* pointer) const {
    return reinterpret_cast<std::uint64_t>(pointer) - base;
  }

  std::uint64_t base = 0;
  std::uint64_t exported = 0;
  SampleFacts facts{};
};

inline std::uint32_t add_file(FileTable& files, const std::string& path) {
  auto fd = std::make_shared<const UniqueFd>(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto elf = ElfFile::open({std::move(fd), nullptr}, path);
  const auto info = elf ? files.add(*elf) : nullptr;
  return info == nullptr ? 0 : info->id;
}

}  // namespace pillion::test
