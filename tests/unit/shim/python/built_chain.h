// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "python_find.h"
#include "python_offsets.h"

namespace pillion::shim::test {

// The structures of a thread that runs Python, built in memory as the layout of one version has them: a
// thread state, C frames, frames, code objects, names. All bytes that no field takes are 0x5a, which is
// neither an aligned pointer nor a sound number: who looks beside a field sees that it did.
class BuiltChain {
 public:
  struct Frame {
    std::string name;
    std::string file;  // UTF-8
    std::string lines;
    std::uint32_t first_line;
    std::int32_t offset;  // bytes into the bytecode
    bool last_of_its_run;
    bool operator==(const Frame&) const = default;
  };

  // `in_sub_interpreter`, up to 3.11: the chain hangs off the state of who holds the GIL, and not off the one
  // that the thread is known by.
  explicit BuiltChain(const PythonOffsets& layout, bool in_sub_interpreter = false);
  ~BuiltChain();
  BuiltChain(const BuiltChain&) = delete;
  BuiltChain& operator=(const BuiltChain&) = delete;

  // What reads the chain with this table, on the thread that has built it. One chain at a time.
  [[nodiscard]] Interpreter interpreter(const PythonOffsets& table) const;

  // The leaf's code object dies and another one takes its address, with another name.
  void replace_leaf_code();

  // Makes the memory of all structures unreadable, as if it had been given back; and readable again.
  void hide(bool hidden);

  // Leaf first: what must be found.
  [[nodiscard]] const std::vector<Frame>& expected() const { return expected_; }

 private:
  struct Text {
    std::string utf8;
    std::vector<std::uint32_t> characters;
    std::uint32_t width;  // bytes a character
  };

  std::uint64_t allot(std::uint64_t bytes);
  template <typename T>
  void put(std::uint64_t at, T value);
  std::uint64_t text(const Text& text);
  std::uint64_t bytes(const std::string& content);
  void fill_code(std::uint64_t at, const Text& name, const Text& file, const std::string& lines,
                 std::uint32_t version);
  std::uint64_t code(const Text& name, const Text& file, const std::string& lines, std::uint32_t version);
  std::uint64_t frame(std::uint64_t code, std::int32_t offset, std::uint8_t owner, bool is_entry);
  std::uint64_t shim();
  std::uint64_t cframe(std::uint64_t innermost);
  void build_frames();
  std::uint64_t thread(std::uint64_t innermost);
  void build_threads(bool in_sub_interpreter);

  const PythonOffsets layout_;
  std::uint8_t* memory_;  // pages of its own
  std::uint64_t used_ = 0;
  std::uint64_t runtime_ = 0;
  std::uint64_t leaf_code_ = 0;
  std::uint64_t code_type_ = 0;
  std::uint64_t frame_type_ = 0;
  std::uint64_t text_type_ = 0;
  std::uint64_t bytes_type_ = 0;
  std::vector<std::uint64_t> chain_;    // frames, innermost first
  std::vector<std::uint64_t> cframes_;  // the same
  std::vector<Frame> expected_;
};

}  // namespace pillion::shim::test
