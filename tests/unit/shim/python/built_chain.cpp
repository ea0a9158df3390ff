// SPDX-License-Identifier: Apache-2.0
#include "built_chain.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstring>

namespace pillion::shim::test {
namespace {

constexpr std::uint64_t kMemory = 64 * 1024;
constexpr std::uint64_t kStructure = 1024;  // more than any of them has
constexpr std::uint64_t kTypeAt = 8;
constexpr std::uint64_t kSizeAt = 16;
constexpr std::uint64_t kHashAt = 24;
constexpr std::uint64_t kStateAt = 32;
constexpr std::uint64_t kBytesDataAt = 32;
constexpr std::uint32_t kCompact = 1u << 5;
constexpr std::uint32_t kAscii = 1u << 6;
constexpr std::int32_t kTraceableUnits = 2;  // _co_firsttraceable
constexpr std::int64_t kCodeUnits = 40;
constexpr std::uint32_t kFirstLine = 7;

constexpr char kLeafLines[] = "leaf lines of more than forty bytes, as most tables have";

std::uint64_t g_thread;  // what this_thread_state() says

}  // namespace

BuiltChain::BuiltChain(const PythonOffsets& layout, bool in_sub_interpreter) : layout_(layout) {
  void* memory = ::mmap(nullptr, kMemory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) __builtin_trap();
  memory_ = static_cast<std::uint8_t*>(memory);
  std::memset(memory_, 0x5a, kMemory);
  code_type_ = allot(64);
  frame_type_ = allot(64);
  text_type_ = allot(64);
  bytes_type_ = allot(64);
  runtime_ = allot(kStructure);
  build_frames();
  build_threads(in_sub_interpreter);
}

BuiltChain::~BuiltChain() {
  g_thread = 0;
  ::munmap(memory_, kMemory);
}

void BuiltChain::hide(bool hidden) {
  if (::mprotect(memory_, kMemory, hidden ? PROT_NONE : PROT_READ | PROT_WRITE) != 0) __builtin_trap();
}

Interpreter BuiltChain::interpreter(const PythonOffsets& table) const {
  Interpreter built{};
  built.offsets = &table;
  built.this_thread_state = [] { return reinterpret_cast<void*>(g_thread); };
  built.is_finalizing = [] { return 0; };
  built.runtime = runtime_;
  built.code_type = code_type_;
  built.frame_type = frame_type_;
  built.text_type = text_type_;
  built.bytes_type = bytes_type_;
  return built;
}

std::uint64_t BuiltChain::allot(std::uint64_t bytes) {
  const std::uint64_t at = reinterpret_cast<std::uint64_t>(memory_) + used_;
  used_ += (bytes + 15) & ~std::uint64_t{15};
  if (used_ + 16 > kMemory) __builtin_trap();
  return at;
}

template <typename T>
void BuiltChain::put(std::uint64_t at, T value) {
  std::memcpy(reinterpret_cast<void*>(at), &value, sizeof value);
}

std::uint64_t BuiltChain::text(const Text& text) {
  bool ascii = text.width == 1;
  for (const std::uint32_t character : text.characters) ascii = ascii && character < 0x80;
  const std::uint64_t at = allot(128 + text.characters.size() * text.width);
  put(at + kTypeAt, text_type_);
  put<std::uint64_t>(at + kSizeAt, text.characters.size());
  put<std::uint64_t>(at + kHashAt, 0x1234'5678 + text.characters.size());
  put<std::uint32_t>(at + kStateAt, text.width << 2 | kCompact | (ascii ? kAscii : 0));
  std::uint64_t data = at + (ascii ? layout_.text_ascii : layout_.text_other);
  for (const std::uint32_t character : text.characters) {
    std::memcpy(reinterpret_cast<void*>(data), &character, text.width);  // little endian
    data += text.width;
  }
  put<std::uint32_t>(data, 0);
  return at;
}

std::uint64_t BuiltChain::bytes(const std::string& content) {
  const std::uint64_t at = allot(kBytesDataAt + content.size() + 16);
  put(at + kTypeAt, bytes_type_);
  put<std::uint64_t>(at + kSizeAt, content.size());
  std::memcpy(reinterpret_cast<void*>(at + kBytesDataAt), content.c_str(), content.size() + 1);
  return at;
}

std::uint64_t BuiltChain::code(const Text& name, const Text& file, const std::string& lines,
                               std::uint32_t version) {
  const std::uint64_t at = allot(kStructure);
  fill_code(at, name, file, lines, version);
  return at;
}

void BuiltChain::fill_code(std::uint64_t at, const Text& name, const Text& file, const std::string& lines,
                           std::uint32_t version) {
  put(at + kTypeAt, code_type_);
  put<std::int64_t>(at + kSizeAt, kCodeUnits);
  put<std::uint32_t>(at + layout_.code_first_line, kFirstLine);
  put(at + layout_.code_filename, text(file));
  put(at + layout_.code_name, text(name));
  put(at + layout_.code_lines, bytes(lines));
  if (layout_.code_version != PythonOffsets::kAbsent) put(at + layout_.code_version, version);
  if (layout_.code_first_traceable != PythonOffsets::kAbsent)
    put<std::int32_t>(at + layout_.code_first_traceable, kTraceableUnits);
}

std::uint64_t BuiltChain::frame(std::uint64_t code, std::int32_t offset, std::uint8_t owner, bool is_entry) {
  const std::uint64_t at = allot(kStructure);
  put(at + layout_.frame_code, code);
  put<std::uint64_t>(at + layout_.frame_previous, 0);
  if (layout_.frames_are_objects()) {
    put(at + kTypeAt, frame_type_);
    put<std::int32_t>(at + layout_.frame_instruction, layout_.version >= 0x030a ? offset / 2 : offset);
  } else {
    put<std::uint64_t>(at + layout_.frame_instruction,
                       code + layout_.code_bytecode + static_cast<std::uint64_t>(std::int64_t{offset}));
    put(at + layout_.frame_owner, owner);
  }
  if (layout_.frame_is_entry != PythonOffsets::kAbsent)
    put<std::uint8_t>(at + layout_.frame_is_entry, is_entry ? 1 : 0);
  if (!chain_.empty()) put(chain_.back() + layout_.frame_previous, at);
  chain_.push_back(at);
  return at;
}

// What stands on the C stack behind the last frame of a run, from 3.12 on.
std::uint64_t BuiltChain::shim() {
  const std::uint64_t at = allot(kStructure);
  put(at + layout_.frame_owner, std::uint8_t{3});
  put<std::uint64_t>(at + layout_.frame_previous, 0);
  put(chain_.back() + layout_.frame_previous, at);
  chain_.push_back(at);
  return at;
}

std::uint64_t BuiltChain::cframe(std::uint64_t innermost) {
  const std::uint64_t at = allot(64);
  if (layout_.cframe_frame != PythonOffsets::kAbsent) put(at + layout_.cframe_frame, innermost);
  if (layout_.cframe_previous != PythonOffsets::kAbsent) {
    put<std::uint64_t>(at + layout_.cframe_previous, 0);
    if (!cframes_.empty()) put(cframes_.back() + layout_.cframe_previous, at);
  }
  cframes_.push_back(at);
  return at;
}

// Two runs: a leaf that a generator and a function called, and the module that a call from C led away from.
void BuiltChain::build_frames() {
  const Text leaf{"Model.forward", {'M', 'o', 'd', 'e', 'l', '.', 'f', 'o', 'r', 'w', 'a', 'r', 'd'}, 1};
  const Text inner{"gr\u00f6\u00dfe", {'g', 'r', 0xf6, 0xdf, 'e'}, 1};
  const Text outer{"\u6a21\u578b", {0x6a21, 0x578b}, 2};
  const Text module{"<module>", {'<', 'm', 'o', 'd', 'u', 'l', 'e', '>'}, 1};
  const Text path{"/p/m.py", {'/', 'p', '/', 'm', '.', 'p', 'y'}, 1};
  const Text other{"/\U0001f40d.py", {'/', 0x1f40d, '.', 'p', 'y'}, 4};
  const std::uint64_t leaf_code = code(leaf, path, kLeafLines, 1);
  leaf_code_ = leaf_code;
  const std::uint64_t inner_code = code(inner, other, "inner", 2);
  const std::uint64_t outer_code = code(outer, path, "outer lines", 3);
  const std::uint64_t module_code = code(module, other, "module lines", 4);
  const bool objects = layout_.frames_are_objects();
  const bool all_enter = objects;  // each frame has a native one of its own
  frame(leaf_code, 18, 0, all_enter);
  frame(inner_code, 0, objects ? 0 : 1, all_enter);  // a generator that begins is shown
  if (!objects) frame(leaf_code, 2, 0, false);       // being set up: none
  frame(outer_code, 30, 0, true);
  if (layout_.has_shims()) shim();
  frame(module_code, 64, 0, true);
  if (layout_.has_shims()) shim();
  expected_ = {{leaf.utf8, path.utf8, kLeafLines, kFirstLine, 18, all_enter},
               {inner.utf8, other.utf8, "inner", kFirstLine, 0, all_enter},
               {outer.utf8, path.utf8, "outer lines", kFirstLine, 30, true},
               {module.utf8, other.utf8, "module lines", kFirstLine, 64, true}};
}

void BuiltChain::replace_leaf_code() {
  const Text name{"other", {'o', 't', 'h', 'e', 'r'}, 1};
  const Text path{"/p/m.py", {'/', 'p', '/', 'm', '.', 'p', 'y'}, 1};
  fill_code(leaf_code_, name, path, kLeafLines, 5);
  expected_.front().name = name.utf8;
}

std::uint64_t BuiltChain::thread(std::uint64_t innermost) {
  const std::uint64_t at = allot(kStructure);
  put<std::uint64_t>(at + layout_.thread_id, ::pthread_self());
  if (layout_.thread_frame != PythonOffsets::kAbsent) put(at + layout_.thread_frame, innermost);
  if (layout_.thread_cframe != PythonOffsets::kAbsent) {
    cframes_.clear();
    const std::size_t entries = layout_.frames_are_objects() ? chain_.size() : 2;
    for (std::size_t entry = 0; entry < entries && innermost != 0; ++entry) cframe(innermost);
    cframe(innermost);  // the one in the thread state itself
    put(at + layout_.thread_cframe, cframes_.front());
  }
  return at;
}

void BuiltChain::build_threads(bool in_sub_interpreter) {
  const std::uint64_t own = thread(chain_.front());
  g_thread = in_sub_interpreter ? thread(0) : own;
  if (layout_.runtime_interpreters == PythonOffsets::kAbsent) return;
  put<std::uint64_t>(runtime_ + layout_.runtime_interpreters, in_sub_interpreter ? 1 : 2);  // newest
  put<std::uint64_t>(runtime_ + layout_.runtime_interpreters + 8, 2);                       // main
  put<std::uint64_t>(runtime_ + layout_.runtime_current, in_sub_interpreter ? own : 0);
}

}  // namespace pillion::shim::test
