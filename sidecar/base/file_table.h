// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "base/elf_file.h"

namespace pillion {

// One distinct ELF file, or a mapped file that could not be read as one. Immutable once in the table.
struct FileInfo {
  std::uint32_t id = 0;
  std::string path;          // as the first target that mapped it saw it
  std::string build_id;      // lower-case hex; empty: none
  std::string soname;        // empty: none
  std::uint64_t device = 0;  // of the opened descriptor; of the mapping when it was not opened
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::vector<LoadSegment> segments;
  ElfBytes content;  // invalid: not readable; addresses of its frames are file offsets then
  [[nodiscard]] std::string name() const;  // SONAME, else the last part of the path
};

// Numbers ELF files from 1, across targets, by (device, inode, size, build-id): the number is
// UnwoundFrame::file. Shared by the stages that open files. Thread-safe. Files stay for the life of the
// table; each opened one keeps a descriptor, so the process wants RLIMIT_NOFILE above kFilesMax.
class FileTable {
 public:
  static constexpr std::size_t kFilesMax = 8192;

  // The entry of this file, made if it is new. Null when the table is full.
  [[nodiscard]] std::shared_ptr<const FileInfo> add(const ElfFile& file);
  // The entry of a mapped file that could not be opened. `device` and `inode` are those of the maps text.
  [[nodiscard]] std::shared_ptr<const FileInfo> add_unreadable(std::string path, std::uint64_t device,
                                                               std::uint64_t inode);
  // Null for 0 and for numbers never given.
  [[nodiscard]] std::shared_ptr<const FileInfo> find(std::uint32_t id) const;
  [[nodiscard]] std::size_t size() const;
  // How often a file was turned away because the table was full.
  [[nodiscard]] std::uint64_t refused() const;

 private:
  using Key = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::string, bool>;
  std::shared_ptr<const FileInfo> insert(Key key, FileInfo info);

  mutable std::mutex mutex_;
  std::map<Key, std::shared_ptr<const FileInfo>> by_key_;
  std::vector<std::shared_ptr<const FileInfo>> by_id_;
  std::uint64_t refused_ = 0;
};

}  // namespace pillion
