// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/file_table.h"

namespace pillion::symbolize {

// One function of one machine frame.
struct ResolvedFrame {
  std::string function;     // demangled; `libfoo.so+0x8bb300` where only the function's start is known
  std::string system_name;  // as in the file; equal to `function` where nothing was mangled
  std::string source;       // path as the compiler recorded it; empty: not known
  std::uint32_t line = 0;   // 0: not known
  std::uint32_t start_line = 0;
  bool inlined = false;
};

struct SymbolizeCounters {
  std::uint64_t lookups = 0;
  std::uint64_t computed = 0;         // lookups that no cache answered
  std::uint64_t named_by_symbol = 0;  // of the computed ones
  std::uint64_t named_by_debug_info = 0;
  std::uint64_t named_by_range = 0;    // file+start of the function's unwind range
  std::uint64_t named_by_address = 0;  // file+address: not even that
  std::uint64_t files_opened = 0;
  std::uint64_t files_failed = 0;          // no longer readable as ELF
  std::uint64_t files_evicted = 0;         // to stay within Limits::memory_bytes
  std::uint64_t debug_info_too_large = 0;  // left to symbols
  std::uint64_t debug_info_refused = 0;    // malformed, or with links to other files
  std::uint64_t symbols_cut = 0;           // files with more symbols than SymbolTable takes
};

struct SymbolizeLimits {
  std::size_t cached_addresses = 1U << 17;  // then the cache of addresses starts afresh
  std::uint64_t memory_bytes = 1ULL << 30;  // of tables and debug sections; the file used longest ago leaves
};

// Names code addresses. One owner thread: it opens its own handles on the files of the table. First use of a
// file takes milliseconds to seconds, later addresses of it microseconds.
class Symbolizer {
 public:
  // `files` outlives the symbolizer. `debug_root`: where this machine keeps separate debug files.
  explicit Symbolizer(const FileTable& files, std::string debug_root = "/usr/lib/debug",
                      SymbolizeLimits limits = {});
  ~Symbolizer();
  Symbolizer(const Symbolizer&) = delete;
  Symbolizer& operator=(const Symbolizer&) = delete;

  // The functions at an UnwoundFrame's file and address, innermost inlined one first; at least one.
  // `is_return`: the call is at the byte before. The reference holds until the next call.
  const std::vector<ResolvedFrame>& resolve(std::uint32_t file, std::uint64_t address, bool is_return);
  [[nodiscard]] const SymbolizeCounters& counters() const { return counters_; }

 private:
  struct Key {
    std::uint32_t file;
    std::uint64_t address;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      return (key.address ^ static_cast<std::uint64_t>(key.file) << 44) * 0x9E3779B97F4A7C15ULL >> 7;
    }
  };
  struct Module;

  std::vector<ResolvedFrame> compute(std::uint32_t file, std::uint64_t address);
  Module& module_of(const FileInfo& info);
  void load(Module& module, const FileInfo& info);
  void load_debug_info(Module& module, const FileInfo& info);
  void evict(const Module& keep);
  std::string name_by_range(Module& module, const FileInfo& info, std::uint64_t address);

  const FileTable& files_;
  std::string debug_root_;
  SymbolizeLimits limits_;
  std::unordered_map<Key, std::vector<ResolvedFrame>, KeyHash> resolved_;
  std::map<std::string, std::unique_ptr<Module>> modules_;  // by build-id and size, or by number
  std::uint64_t memory_bytes_ = 0;
  std::uint64_t uses_ = 0;
  SymbolizeCounters counters_;
};

}  // namespace pillion::symbolize
