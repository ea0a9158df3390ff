// SPDX-License-Identifier: Apache-2.0
#include "symbolize/debug_files.h"

#include <fcntl.h>
#include <gelf.h>
#include <lzma.h>

#include <algorithm>
#include <cstring>

namespace pillion::symbolize {
namespace {

constexpr std::size_t kPackedMax = 32U << 20;
constexpr std::size_t kUnpackedMax = 64U << 20;
constexpr std::uint64_t kUnpackMemoryMax = 128U << 20;

Elf_Data* section_data(Elf* elf, const char* wanted) {
  std::size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return nullptr;
  Elf_Scn* section = nullptr;
  while ((section = elf_nextscn(elf, section)) != nullptr) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type == SHT_NOBITS) continue;
    const char* name = elf_strptr(elf, names, header.sh_name);
    if (name != nullptr && std::strcmp(name, wanted) == 0 && header.sh_size <= kPackedMax)
      return elf_rawdata(section, nullptr);
  }
  return nullptr;
}

// Grows the output as needed up to the limit; empty on failure.
std::vector<std::byte> unpack(const void* packed, std::size_t bytes) {
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, kUnpackMemoryMax, 0) != LZMA_OK) return {};
  std::vector<std::byte> unpacked(std::min(std::max(bytes * 4, std::size_t{4096}), kUnpackedMax));
  stream.next_in = static_cast<const std::uint8_t*>(packed);
  stream.avail_in = bytes;
  stream.next_out = reinterpret_cast<std::uint8_t*>(unpacked.data());
  stream.avail_out = unpacked.size();
  lzma_ret status = lzma_code(&stream, LZMA_FINISH);
  while (status == LZMA_OK && stream.avail_out == 0 && unpacked.size() < kUnpackedMax) {
    const std::size_t used = unpacked.size();
    unpacked.resize(std::min(used * 2, kUnpackedMax));
    stream.next_out = reinterpret_cast<std::uint8_t*>(unpacked.data()) + used;
    stream.avail_out = unpacked.size() - used;
    status = lzma_code(&stream, LZMA_FINISH);
  }
  unpacked.resize(status == LZMA_STREAM_END ? unpacked.size() - stream.avail_out : 0);
  lzma_end(&stream);
  return unpacked;
}

}  // namespace

std::optional<ElfFile> open_debug_file(const std::string& root, const std::string& build_id) {
  if (build_id.size() < 4) return std::nullopt;
  const std::string path = root + "/.build-id/" + build_id.substr(0, 2) + "/" + build_id.substr(2) + ".debug";
  auto fd = std::make_shared<UniqueFd>(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd->valid()) return std::nullopt;
  auto file = ElfFile::open({std::move(fd), nullptr}, path);
  if (!file || file->build_id() != build_id) return std::nullopt;
  return std::move(*file);
}

std::optional<ElfFile> unpack_debugdata(const ElfFile& file) {
  const Elf_Data* data = section_data(file.elf(), ".gnu_debugdata");
  if (data == nullptr || data->d_buf == nullptr || data->d_size == 0) return std::nullopt;
  auto image = std::make_shared<const std::vector<std::byte>>(unpack(data->d_buf, data->d_size));
  if (image->empty()) return std::nullopt;
  auto inner = ElfFile::open({nullptr, std::move(image)}, file.path() + " .gnu_debugdata");
  if (!inner) return std::nullopt;
  return std::move(*inner);
}

}  // namespace pillion::symbolize
