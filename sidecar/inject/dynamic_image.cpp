// SPDX-License-Identifier: Apache-2.0
#include "inject/dynamic_image.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

namespace pillion::inject {
namespace {

constexpr std::size_t kProgramHeadersMax = 64;
constexpr std::uint64_t kDynamicBytesMax = 64 * 1024;
constexpr std::size_t kNameMax = 256;
constexpr std::uint32_t kBucketsMax = 1u << 24;
constexpr std::size_t kChainMax = 65'536;
constexpr std::size_t kVersionsMax = 512;
constexpr std::uint64_t kPageMask = ~std::uint64_t{4'095};

std::uint32_t gnu_hash(const char* name) {
  std::uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

std::uint32_t old_hash(const char* name) {
  std::uint32_t hash = 0;
  for (; *name != '\0'; ++name) {
    hash = (hash << 4) + static_cast<unsigned char>(*name);
    const std::uint32_t high = hash & 0xf0000000u;
    hash = (hash ^ (high >> 24)) & ~high;
  }
  return hash;
}

}  // namespace

std::optional<DynamicImage> DynamicImage::read(const TargetMemory& memory, std::uint64_t base) {
  Elf64_Ehdr header;
  if (!memory.read(base, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64 ||
      header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > kProgramHeadersMax)
    return std::nullopt;
  std::vector<Elf64_Phdr> programs(header.e_phnum);
  if (!memory.read(base + header.e_phoff, programs.data(), programs.size() * sizeof(Elf64_Phdr)))
    return std::nullopt;
  DynamicImage image;
  const auto first = std::find_if(programs.begin(), programs.end(),
                                  [](const Elf64_Phdr& program) { return program.p_type == PT_LOAD; });
  if (first == programs.end()) return std::nullopt;
  image.bias_ = base - ((first->p_vaddr - first->p_offset) & kPageMask);
  for (const auto& program : programs) {
    if (program.p_type == PT_INTERP) image.interpreter_ = true;
    if (program.p_type == PT_LOAD && (program.p_flags & PF_X) != 0)
      image.code_.push_back({image.bias_ + program.p_vaddr, program.p_filesz});
    if (program.p_type == PT_DYNAMIC)
      image.read_dynamic(memory, image.bias_ + program.p_vaddr, program.p_memsz);
  }
  return image;
}

void DynamicImage::read_dynamic(const TargetMemory& memory, std::uint64_t address, std::uint64_t bytes) {
  std::vector<Elf64_Dyn> entries(std::min(bytes, kDynamicBytesMax) / sizeof(Elf64_Dyn));
  if (!memory.read(address, entries.data(), entries.size() * sizeof(Elf64_Dyn))) return;
  dynamic_ = true;
  // glibc's loader has turned these into addresses, musl's has not.
  const auto place = [this](std::uint64_t value) { return value < bias_ ? value + bias_ : value; };
  std::optional<std::uint64_t> name;
  for (const auto& entry : entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_STRTAB) strings_ = place(entry.d_un.d_ptr);
    if (entry.d_tag == DT_SYMTAB) symbols_ = place(entry.d_un.d_ptr);
    if (entry.d_tag == DT_GNU_HASH) gnu_hash_ = place(entry.d_un.d_ptr);
    if (entry.d_tag == DT_HASH) old_hash_ = place(entry.d_un.d_ptr);
    if (entry.d_tag == DT_VERSYM) symbol_versions_ = place(entry.d_un.d_ptr);
    if (entry.d_tag == DT_VERDEF) defined_versions_ = place(entry.d_un.d_ptr);
    if (entry.d_tag == DT_SONAME) name = entry.d_un.d_val;
  }
  if (name && strings_ != 0) soname_ = memory.read_text(strings_ + *name, kNameMax);
}

std::vector<std::string> DynamicImage::versions(const TargetMemory& memory) const {
  std::vector<std::string> names;
  std::uint64_t at = defined_versions_;
  while (at != 0 && names.size() < kVersionsMax) {
    Elf64_Verdef definition;
    Elf64_Verdaux auxiliary;
    if (!memory.read(at, definition) || !memory.read(at + definition.vd_aux, auxiliary)) break;
    names.push_back(memory.read_text(strings_ + auxiliary.vda_name, kNameMax));
    at = definition.vd_next == 0 ? 0 : at + definition.vd_next;
  }
  return names;
}

std::optional<ImageRange> DynamicImage::symbol(const TargetMemory& memory, std::uint64_t index,
                                               const char* name, bool& hidden) const {
  Elf64_Sym entry;
  if (!memory.read(symbols_ + index * sizeof(entry), entry)) return std::nullopt;
  const unsigned binding = ELF64_ST_BIND(entry.st_info);
  if (entry.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(entry.st_info) != STT_FUNC ||
      (binding != STB_GLOBAL && binding != STB_WEAK) ||
      memory.read_text(strings_ + entry.st_name, kNameMax) != name)
    return std::nullopt;
  std::uint16_t version = 0;
  hidden = symbol_versions_ != 0 && memory.read(symbol_versions_ + index * sizeof(version), version) &&
           (version & 0x8000) != 0;
  return ImageRange{bias_ + entry.st_value, entry.st_size};
}

// https://sourceware.org/gnu-gabi/program-loading-and-dynamic-linking.txt: header, bloom words, buckets,
// chains.
template <typename Visit>
void DynamicImage::each_gnu_hashed(const TargetMemory& memory, const char* name, Visit visit) const {
  struct {
    std::uint32_t buckets, first_symbol, bloom_words, bloom_shift;
  } table;
  if (!memory.read(gnu_hash_, table) || table.buckets == 0 || table.buckets > kBucketsMax) return;
  const std::uint32_t hash = gnu_hash(name);
  const std::uint64_t buckets = gnu_hash_ + sizeof(table) + std::uint64_t{table.bloom_words} * 8;
  const std::uint64_t chains = buckets + std::uint64_t{table.buckets} * 4;
  std::uint32_t index = 0;
  if (!memory.read(buckets + std::uint64_t{hash % table.buckets} * 4, index)) return;
  if (index < table.first_symbol) return;
  for (std::size_t links = 0; links < kChainMax; ++links, ++index) {
    std::uint32_t entry = 0;
    if (!memory.read(chains + std::uint64_t{index - table.first_symbol} * 4, entry)) return;
    if ((entry | 1) == (hash | 1) && visit(index)) return;
    if ((entry & 1) != 0) return;
  }
}

template <typename Visit>
void DynamicImage::each_old_hashed(const TargetMemory& memory, const char* name, Visit visit) const {
  struct {
    std::uint32_t buckets, chains;
  } table;
  if (!memory.read(old_hash_, table) || table.buckets == 0 || table.buckets > kBucketsMax) return;
  const std::uint64_t buckets = old_hash_ + sizeof(table);
  const std::uint64_t chains = buckets + std::uint64_t{table.buckets} * 4;
  std::uint32_t index = 0;
  if (!memory.read(buckets + std::uint64_t{old_hash(name) % table.buckets} * 4, index)) return;
  for (std::size_t links = 0; links < kChainMax && index != STN_UNDEF; ++links) {
    if (visit(index) || !memory.read(chains + std::uint64_t{index} * 4, index)) return;
  }
}

std::optional<ImageRange> DynamicImage::function(const TargetMemory& memory, const char* name) const {
  if (strings_ == 0 || symbols_ == 0) return std::nullopt;
  std::optional<ImageRange> found;
  const auto visit = [&](std::uint64_t index) {
    bool hidden = false;
    const auto candidate = symbol(memory, index, name, hidden);
    if (!candidate) return false;
    // A hidden version is for programs linked long ago; one of them is better than none.
    if (!found || !hidden) found = candidate;
    return !hidden;
  };
  if (gnu_hash_ != 0) {
    each_gnu_hashed(memory, name, visit);
  } else if (old_hash_ != 0) {
    each_old_hashed(memory, name, visit);
  }
  return found;
}

}  // namespace pillion::inject
