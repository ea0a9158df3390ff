// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inject/target_memory.h"

namespace pillion::inject {

// A function or a segment of an image that is in memory.
struct ImageRange {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

// A program or library as a process has it in memory: what the loader itself uses, and so neither a deleted
// or replaced file nor another mount namespace, nor an overlay's two device numbers come between. Foreign
// bytes: every count is bounded, and a result may be any number.
class DynamicImage {
 public:
  // `base`: where the file's offset 0 lies. Nothing when there is no x86-64 ELF image.
  [[nodiscard]] static std::optional<DynamicImage> read(const TargetMemory& memory, std::uint64_t base);

  [[nodiscard]] bool dynamic() const { return dynamic_; }          // has a dynamic section
  [[nodiscard]] bool interpreter() const { return interpreter_; }  // asks for a loader
  [[nodiscard]] const std::string& soname() const { return soname_; }
  [[nodiscard]] const std::vector<ImageRange>& code() const { return code_; }  // executable segments

  // The versions that it defines: "GLIBC_2.2.5". In its own order.
  [[nodiscard]] std::vector<std::string> versions(const TargetMemory& memory) const;

  // A function that it exports, in the version that new programs get; nothing for other symbols and for ones
  // that it imports. An indirect function (STT_GNU_IFUNC) has no address of its own: nothing.
  [[nodiscard]] std::optional<ImageRange> function(const TargetMemory& memory, const char* name) const;

 private:
  void read_dynamic(const TargetMemory& memory, std::uint64_t address, std::uint64_t bytes);
  std::optional<ImageRange> symbol(const TargetMemory& memory, std::uint64_t index, const char* name,
                                   bool& hidden) const;
  template <typename Visit>
  void each_gnu_hashed(const TargetMemory& memory, const char* name, Visit visit) const;
  template <typename Visit>
  void each_old_hashed(const TargetMemory& memory, const char* name, Visit visit) const;

  std::uint64_t bias_ = 0;  // added to the file's addresses
  bool dynamic_ = false;
  bool interpreter_ = false;
  std::string soname_;
  std::vector<ImageRange> code_;
  // Addresses in the process; 0: none.
  std::uint64_t strings_ = 0;
  std::uint64_t symbols_ = 0;
  std::uint64_t gnu_hash_ = 0;
  std::uint64_t old_hash_ = 0;
  std::uint64_t symbol_versions_ = 0;
  std::uint64_t defined_versions_ = 0;
};

}  // namespace pillion::inject
