// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

struct Elf;

namespace pillion {

// Where the bytes of an ELF file come from: an open descriptor, or a copy in memory (the vDSO, an unpacked
// .gnu_debugdata). Both may be shared by several ElfFile, on several threads: descriptors are read with pread
// only.
struct ElfBytes {
  std::shared_ptr<const UniqueFd> fd;
  std::shared_ptr<const std::vector<std::byte>> image;
  [[nodiscard]] bool valid() const { return fd != nullptr || image != nullptr; }
};

// One PT_LOAD entry.
struct LoadSegment {
  std::uint64_t vaddr = 0;
  std::uint64_t offset = 0;  // in the file, bytes
  std::uint64_t file_bytes = 0;
  bool executable = false;
};

// One ELF64 x86-64 executable, shared object or separate debug file, opened by reading: a file that the
// workload can truncate is never mapped (SIGBUS). Everything in it is foreign bytes. Owned and used by one
// thread: libelf keeps lazily filled state behind the handle.
class ElfFile {
 public:
  static constexpr std::uint64_t kFileBytesMax = 16ULL << 30;
  static constexpr std::size_t kProgramHeadersMax = 512;
  static constexpr std::size_t kSectionsMax = 65536;

  // `path` is for messages. Fails on anything but a regular file with sane ELF64 x86-64 headers.
  static Result<ElfFile> open(ElfBytes bytes, std::string path);

  ElfFile(ElfFile&&) noexcept = default;
  ElfFile& operator=(ElfFile&&) noexcept = default;

  [[nodiscard]] Elf* elf() const { return elf_.get(); }
  [[nodiscard]] const ElfBytes& bytes() const { return bytes_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& build_id() const { return build_id_; }  // lower-case hex; empty: none
  [[nodiscard]] const std::string& soname() const { return soname_; }      // empty: none
  [[nodiscard]] const std::vector<LoadSegment>& segments() const { return segments_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::uint64_t device() const { return device_; }  // st_dev; 0 for an image
  [[nodiscard]] std::uint64_t inode() const { return inode_; }

  // Bytes of all .debug_* sections as they would be in memory: compressed ones count with their unpacked
  // size.
  [[nodiscard]] std::uint64_t debug_bytes() const;

 private:
  struct ElfEnd {
    void operator()(Elf* elf) const;
  };

  ElfFile() = default;
  Result<void> read_headers();
  void read_build_id(std::uint64_t offset, std::uint64_t bytes);
  void read_build_id_from_sections();
  void read_soname(std::uint64_t offset, std::uint64_t bytes);

  ElfBytes bytes_;  // outlives elf_
  std::unique_ptr<Elf, ElfEnd> elf_;
  std::string path_;
  std::string build_id_;
  std::string soname_;
  std::vector<LoadSegment> segments_;
  std::uint64_t size_ = 0;
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
};

// ELF virtual address of a file offset that is mapped executable; nothing when no segment covers it. Segments
// are mapped in whole pages, so the rest of a segment's last page counts.
[[nodiscard]] std::optional<std::uint64_t> code_address(const std::vector<LoadSegment>& segments,
                                                        std::uint64_t offset);

}  // namespace pillion
