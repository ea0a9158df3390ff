// SPDX-License-Identifier: Apache-2.0
#include "base/elf_file.h"

#include <gelf.h>
#include <libelf.h>
#include <sys/stat.h>

#include <cstring>

namespace pillion {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kNoteBytesMax = 64 * 1024;
constexpr std::uint64_t kDynamicBytesMax = 64 * 1024;
constexpr std::uint64_t kSonameMax = 256;
constexpr std::size_t kBuildIdMax = 64;

std::string to_hex(const unsigned char* bytes, std::size_t count) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(count * 2);
  for (std::size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

}  // namespace

void ElfFile::ElfEnd::operator()(Elf* elf) const { elf_end(elf); }

Result<ElfFile> ElfFile::open(ElfBytes bytes, std::string path) {
  elf_version(EV_CURRENT);
  ElfFile file;
  file.bytes_ = std::move(bytes);
  file.path_ = std::move(path);
  if (file.bytes_.fd != nullptr) {
    struct stat status {};
    if (::fstat(file.bytes_.fd->get(), &status) != 0) return fail_errno("stat", file.path_);
    if (!S_ISREG(status.st_mode)) return fail("open ELF file", file.path_, "not a regular file");
    file.size_ = static_cast<std::uint64_t>(status.st_size);
    file.device_ = status.st_dev;
    file.inode_ = status.st_ino;
    if (file.size_ > kFileBytesMax) return fail("open ELF file", file.path_, "too large");
    file.elf_.reset(elf_begin(file.bytes_.fd->get(), ELF_C_READ, nullptr));
  } else if (file.bytes_.image != nullptr) {
    const auto& image = *file.bytes_.image;
    file.size_ = image.size();
    // libelf takes char* but only reads an image that was opened so.
    char* data = const_cast<char*>(reinterpret_cast<const char*>(image.data()));
    file.elf_.reset(elf_memory(data, image.size()));
  }
  if (file.elf_ == nullptr) return fail("open ELF file", file.path_, elf_errmsg(-1));
  if (auto read = file.read_headers(); !read) return tl::make_unexpected(read.error());
  return file;
}

Result<void> ElfFile::read_headers() {
  GElf_Ehdr header;
  if (elf_kind(elf_.get()) != ELF_K_ELF || gelf_getehdr(elf_.get(), &header) == nullptr)
    return fail("open ELF file", path_, "not an ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != EM_X86_64 || (header.e_type != ET_EXEC && header.e_type != ET_DYN))
    return fail("open ELF file", path_, "not an x86-64 executable or shared object");
  std::size_t programs = 0;
  std::size_t sections = 0;
  if (elf_getphdrnum(elf_.get(), &programs) != 0 || elf_getshdrnum(elf_.get(), &sections) != 0)
    return fail("open ELF file", path_, elf_errmsg(-1));
  if (programs > kProgramHeadersMax || sections > kSectionsMax)
    return fail("open ELF file", path_, "too many headers");
  std::optional<GElf_Phdr> dynamic;
  std::vector<GElf_Phdr> notes;
  for (std::size_t i = 0; i < programs; ++i) {
    GElf_Phdr program;
    if (gelf_getphdr(elf_.get(), static_cast<int>(i), &program) == nullptr)
      return fail("open ELF file", path_, "program headers are cut off");
    if (program.p_type == PT_LOAD)
      segments_.push_back(
          {program.p_vaddr, program.p_offset, program.p_filesz, (program.p_flags & PF_X) != 0});
    if (program.p_type == PT_NOTE) notes.push_back(program);
    if (program.p_type == PT_DYNAMIC) dynamic = program;
  }
  for (const auto& note : notes)
    if (build_id_.empty()) read_build_id(note.p_offset, note.p_filesz);
  if (build_id_.empty()) read_build_id_from_sections();
  if (dynamic) read_soname(dynamic->p_offset, dynamic->p_filesz);
  return {};
}

void ElfFile::read_build_id(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes > kNoteBytesMax || offset > size_) return;
  Elf_Data* data = elf_getdata_rawchunk(elf_.get(), static_cast<std::int64_t>(offset), bytes, ELF_T_NHDR);
  if (data == nullptr || data->d_buf == nullptr) return;
  GElf_Nhdr note;
  std::size_t name = 0;
  std::size_t description = 0;
  std::size_t at = 0;
  while ((at = gelf_getnote(data, at, &note, &name, &description)) > 0) {
    const auto* begin = static_cast<const unsigned char*>(data->d_buf);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(begin + name, "GNU", 4) == 0 &&
        note.n_descsz > 0 && note.n_descsz <= kBuildIdMax) {
      build_id_ = to_hex(begin + description, note.n_descsz);
      return;
    }
  }
}

// Separate debug files may have lost what their program headers point to.
void ElfFile::read_build_id_from_sections() {
  Elf_Scn* section = nullptr;
  while (build_id_.empty() && (section = elf_nextscn(elf_.get(), section)) != nullptr) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) != nullptr && header.sh_type == SHT_NOTE)
      read_build_id(header.sh_offset, header.sh_size);
  }
}

void ElfFile::read_soname(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes > kDynamicBytesMax || offset > size_) return;
  Elf_Data* data = elf_getdata_rawchunk(elf_.get(), static_cast<std::int64_t>(offset), bytes, ELF_T_DYN);
  if (data == nullptr) return;
  std::optional<std::uint64_t> strings;
  std::optional<std::uint64_t> name;
  GElf_Dyn entry;
  for (int i = 0; gelf_getdyn(data, i, &entry) != nullptr && entry.d_tag != DT_NULL; ++i) {
    if (entry.d_tag == DT_STRTAB) strings = entry.d_un.d_ptr;
    if (entry.d_tag == DT_SONAME) name = entry.d_un.d_val;
  }
  if (!strings || !name) return;
  for (const auto& segment : segments_) {
    const std::uint64_t into = *strings + *name - segment.vaddr;
    if (into >= segment.file_bytes) continue;
    const std::uint64_t most = std::min(kSonameMax, segment.file_bytes - into);
    Elf_Data* text =
        elf_getdata_rawchunk(elf_.get(), static_cast<std::int64_t>(segment.offset + into), most, ELF_T_BYTE);
    if (text == nullptr || text->d_buf == nullptr) return;
    const auto* begin = static_cast<const char*>(text->d_buf);
    soname_.assign(begin, ::strnlen(begin, text->d_size));
    return;
  }
}

std::uint64_t ElfFile::debug_bytes() const {
  std::size_t names = 0;
  if (elf_getshdrstrndx(elf_.get(), &names) != 0) return 0;
  std::uint64_t total = 0;
  Elf_Scn* section = nullptr;
  while ((section = elf_nextscn(elf_.get(), section)) != nullptr) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type == SHT_NOBITS) continue;
    const char* name = elf_strptr(elf_.get(), names, header.sh_name);
    if (name == nullptr) continue;
    std::uint64_t bytes = header.sh_size;
    if (std::strncmp(name, ".zdebug_", 8) == 0) {
      bytes = kFileBytesMax;  // the old GNU form hides its size in the data: treated as too large
    } else if (std::strncmp(name, ".debug_", 7) != 0) {
      continue;
    }
    GElf_Chdr compressed;
    if ((header.sh_flags & SHF_COMPRESSED) != 0)
      bytes = gelf_getchdr(section, &compressed) != nullptr ? compressed.ch_size : kFileBytesMax;
    if (bytes > kFileBytesMax - total) return kFileBytesMax;
    total += bytes;
  }
  return total;
}

std::optional<std::uint64_t> code_address(const std::vector<LoadSegment>& segments, std::uint64_t offset) {
  for (const auto& segment : segments) {
    if (!segment.executable) continue;
    const std::uint64_t first = segment.offset & ~(kPage - 1);
    const std::uint64_t span = (segment.offset - first + segment.file_bytes + kPage - 1) & ~(kPage - 1);
    if (offset - first < span) return offset - segment.offset + segment.vaddr;
  }
  return std::nullopt;
}

}  // namespace pillion
