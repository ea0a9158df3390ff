// SPDX-License-Identifier: Apache-2.0
#include "inject/shim_file.h"

#include <fcntl.h>
#include <gelf.h>

#include <charconv>
#include <cstring>
#include <memory>

#include "abi/pillion_injection.h"
#include "base/elf_file.h"

namespace pillion::inject {
namespace {

std::uint64_t symbol_in(Elf* elf, Elf_Scn* section, const GElf_Shdr& header, const char* name) {
  Elf_Data* data = elf_getdata(section, nullptr);
  if (data == nullptr || header.sh_entsize == 0) return 0;
  const std::size_t count = header.sh_size / header.sh_entsize;
  for (std::size_t at = 0; at < count; ++at) {
    GElf_Sym symbol;
    if (gelf_getsym(data, static_cast<int>(at), &symbol) == nullptr || symbol.st_value == 0) continue;
    const char* found = elf_strptr(elf, header.sh_link, symbol.st_name);
    if (found != nullptr && std::strcmp(found, name) == 0) return symbol.st_value;
  }
  return 0;
}

std::uint64_t dynamic_symbol(Elf* elf, const char* name) {
  for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr;
       section = elf_nextscn(elf, section)) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_DYNSYM) continue;
    return symbol_in(elf, section, header, name);
  }
  return 0;
}

// Calls visit(start, offset, path) for each line until that says true.
template <typename Visit>
void each_mapping(std::string_view maps, Visit visit) {
  while (!maps.empty()) {
    const std::size_t end = std::min(maps.find('\n'), maps.size());
    const std::string_view line = maps.substr(0, end);
    maps.remove_prefix(std::min(end + 1, maps.size()));
    const std::size_t slash = line.find('/');
    const std::size_t permissions = line.find(' ');
    if (slash == std::string_view::npos || permissions + 6 > line.size()) continue;
    std::uint64_t start = 0;
    std::uint64_t offset = 0;
    std::from_chars(line.data(), line.data() + line.size(), start, 16);
    std::from_chars(line.data() + permissions + 6, line.data() + line.size(), offset, 16);
    if (visit(start, offset, line.substr(slash))) return;
  }
}

}  // namespace

Result<ShimFile> open_shim_file(const std::string& path) {
  auto file = std::make_shared<const UniqueFd>(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file->valid()) return fail_errno("open the shim", path);
  const auto elf = ElfFile::open({file, nullptr}, path);
  if (!elf) return tl::make_unexpected(elf.error());
  const std::uint64_t offset = dynamic_symbol(elf->elf(), PILLION_START_INJECTED);
  if (offset == 0)
    return fail("read the shim", path, "it is too old to be injected; take the one of this program");
  UniqueFd own(::fcntl(file->get(), F_DUPFD_CLOEXEC, 0));
  if (!own.valid()) return fail_errno("open the shim", path);
  return ShimFile{std::move(own), elf->size(), offset};
}

std::uint64_t load_address(std::string_view maps, std::string_view name) {
  std::uint64_t address = 0;
  each_mapping(maps, [&](std::uint64_t start, std::uint64_t offset, std::string_view path) {
    if (offset == 0 && path.find(name) != std::string_view::npos) address = start;
    return address != 0;
  });
  return address;
}

std::string resident_shim(std::string_view maps) {
  std::string resident;
  each_mapping(maps, [&](std::uint64_t, std::uint64_t, std::string_view path) {
    if (path.find("libpillion.so") != std::string_view::npos) resident = std::string(path);
    return !resident.empty();
  });
  return resident;
}

}  // namespace pillion::inject
