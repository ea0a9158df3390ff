// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/file_table.h"
#include "symbolize/python_lines.h"
#include "symbolize/symbolizer.h"
#include "unwind/unwinder.h"

// A workload whose ELF files, maps, stacks and registers hold anything: a stack within bounds comes back, and
// each of its frames gets a name; of its Python frames none is lost. Input: 8 registers, 2 bytes (12 bits are
// the size of the stack, 4 the number of Python frames), the stack, the file.
namespace {

using namespace pillion;

constexpr std::size_t kFileBytesMax = 256 * 1024;
constexpr std::size_t kResolvedMax = 64;

void check(bool good) {
  if (!good) std::abort();
}

class OneFile : public unwind::FileSource {
 public:
  OneFile(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  Result<UniqueFd> open(TargetId, const unwind::Mapping&) override {
    UniqueFd fd(::memfd_create("hostile", MFD_CLOEXEC));
    if (!fd.valid() || ::write(fd.get(), data_, size_) != static_cast<ssize_t>(size_)) {
      return fail_errno("write", "memfd");
    }
    return fd;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

// Python frames whose entries are addresses in the stack, 0, or 3.9's.
std::vector<RawPythonFrame> python_frames(const RawSnapshot& snapshot, std::uint32_t count) {
  std::vector<RawPythonFrame> frames;
  for (std::uint32_t i = 0; i < std::min<std::size_t>(count, snapshot.stack.size()); ++i) {
    const auto byte = std::to_integer<std::uint64_t>(snapshot.stack[i]);
    frames.push_back(
        {i, static_cast<std::int32_t>(byte), byte < 2 ? byte : snapshot.stack_start + byte * 16});
  }
  return frames;
}

void check_python(const RawSnapshot& snapshot, const UnwoundStack& unwound) {
  std::uint32_t next = 0;
  for (const UnwoundFrame& frame : unwound.frames) {
    if (frame.kind == FrameKind::python) check(frame.file == next++);
  }
  check(next == snapshot.python.size());
  for (const std::uint16_t version : {std::uint16_t{0x0309}, std::uint16_t{0x030a}, std::uint16_t{0x030b}}) {
    const symbolize::PythonLineTable table{version, 1, snapshot.stack};
    for (const std::int32_t offset : {-1, 0, 64, 1'000})
      check(symbolize::python_line(table, offset) <= 0x7fffffff);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  RawSnapshot snapshot;
  std::uint16_t stack_bytes = 0;
  if (size < sizeof(snapshot.registers) + sizeof(stack_bytes)) return 0;
  std::memcpy(snapshot.registers.data(), data, sizeof(snapshot.registers));
  data += sizeof(snapshot.registers);
  std::memcpy(&stack_bytes, data, sizeof(stack_bytes));
  data += sizeof(stack_bytes);
  size -= sizeof(snapshot.registers) + sizeof(stack_bytes);
  const std::size_t stack = std::min<std::size_t>(stack_bytes % 4'096, size);
  snapshot.stack.resize(stack);
  if (stack > 0) std::memcpy(snapshot.stack.data(), data, stack);
  snapshot.stack_start = snapshot.registers[1] & ~std::uint64_t{127};
  snapshot.python = python_frames(snapshot, stack_bytes >> 12);
  data += stack;
  size = std::min(size - stack, kFileBytesMax);

  static const auto maps = unwind::MapsTable::parse(
      "1000-40000 r-xp 00001000 08:01 1 /python3\n"
      "7f0000000000-7f0000040000 r-xp 00000000 08:01 2 /y\n"
      "7f0000050000-7f0000060000 r-xp 00000000 00:00 0 \n");
  FileTable files;
  OneFile source(data, size);
  unwind::Unwinder unwinder(files, source, 1'024);
  const UnwoundStack unwound = unwinder.unwind(snapshot, maps, 1).stack;
  check(unwound.frames.size() <= unwind::Unwinder::kFramesMax + 2 * snapshot.python.size());
  check_python(snapshot, unwound);

  symbolize::Symbolizer symbolizer(files, "/nonexistent");
  for (std::size_t i = 0; i < std::min(unwound.frames.size(), kResolvedMax); ++i) {
    const UnwoundFrame& frame = unwound.frames[i];
    if (frame.file == 0 || frame.kind != FrameKind::native) continue;
    check(!symbolizer.resolve(frame.file, frame.address, frame.is_return).empty());
  }
  if (files.size() > 0) {
    for (std::uint64_t address = 0x1000; address < 0x1400; address += 64) {
      check(!symbolizer.resolve(1, address, true).empty());
    }
  }
  return 0;
}
