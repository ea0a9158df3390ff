// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/file_table.h"
#include "records.h"
#include "unwind/cfi_table.h"
#include "unwind/file_source.h"
#include "unwind/maps_table.h"

namespace pillion::unwind {

// A mapped file as far as it could be opened. `info` is null for code that is in no file, `cfi` where there
// is nothing to unwind with.
struct CodeFile {
  std::shared_ptr<const FileInfo> info;
  CfiTable* cfi = nullptr;
};

struct CodeFileCounters {
  std::uint64_t opened = 0;      // call frame information opened
  std::uint64_t unreadable = 0;  // the source gave no descriptor, or not an ELF file
};

// Opens each file of each target once and keeps its call frame information. One owner thread.
class CodeFiles {
 public:
  static constexpr std::size_t kOpenMax = 2048;    // files with call frame information in memory
  static constexpr std::size_t kKnownMax = 65536;  // mapped files of all targets

  CodeFiles(FileTable& files, FileSource& source) : files_(files), source_(source) {}

  // May block as long as the source does. A file that failed before is asked for again.
  CodeFile get(TargetId target, const Mapping& mapping);
  void forget(TargetId target);
  [[nodiscard]] const CodeFileCounters& counters() const { return counters_; }

 private:
  // A mapping's file within one target; device and inode are those of the maps text.
  using Key = std::tuple<TargetId, std::uint64_t, std::uint64_t, std::string>;

  CodeFile open_file(TargetId target, const Mapping& mapping);
  CodeFile open_vdso();
  CodeFile add(ElfBytes bytes, const std::string& path);

  FileTable& files_;
  FileSource& source_;
  std::map<Key, CodeFile> known_;
  std::map<std::uint32_t, std::unique_ptr<CfiTable>> tables_;  // by file number
  CodeFileCounters counters_;
};

}  // namespace pillion::unwind
