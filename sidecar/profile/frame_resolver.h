// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/idle_data.h"
#include "records.h"

namespace pillion::profile {

struct SourceFrame {
  std::string function;     // demangled; `library+0xoffset` where nothing is known
  std::string system_name;  // as the symbol table has it; empty: same as function
  std::string file;         // of the source; empty: unknown
  std::uint32_t line = 0;
};

struct Module {
  std::string path;         // as the target's maps have it
  std::string build_id;     // lowercase hex, empty: none
  std::uint64_t start = 0;  // executable mapping in the target
  std::uint64_t limit = 0;
  std::uint64_t offset = 0;  // file offset of start
  std::uint64_t bias = 0;    // add to an UnwoundFrame's address to have the target's
};

// What build() asks about code. Called on the thread that builds, one call at a time;
// build() caches every answer for the profile that it makes.
class FrameResolver {
 public:
  virtual ~FrameResolver() = default;

  // The functions at a native frame: the innermost inlined one first, the one that has machine code last.
  // Empty: unknown.
  virtual std::vector<SourceFrame> resolve(TargetId target, const UnwoundFrame& frame) = 0;

  // The function at a Python frame; nothing when its code object never came. Its number means something
  // within one session only.
  virtual std::optional<SourceFrame> resolve_python(SessionId session, const UnwoundFrame& frame) = 0;

  // The ELF file behind UnwoundFrame::file (never asked for 0).
  virtual std::optional<Module> module(TargetId target, std::uint32_t file) = 0;

  // The cubin that holds a kernel, where known: a path-like name and its CRC as build-id.
  virtual std::optional<Module> kernel_module(TargetId, std::string_view /*mangled*/) { return std::nullopt; }
};

}  // namespace pillion::profile
