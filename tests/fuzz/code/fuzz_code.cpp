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
#include "symbolize/symbolizer.h"
#include "unwind/unwinder.h"

// A workload whose ELF files, maps, stacks and registers hold anything: a stack within bounds comes back, and
// each of its frames gets a name. Input: 8 registers, 2 bytes of size, so many bytes of stack, the file.
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
  data += stack;
  size = std::min(size - stack, kFileBytesMax);

  static const auto maps = unwind::MapsTable::parse(
      "1000-40000 r-xp 00001000 08:01 1 /x\n"
      "7f0000000000-7f0000040000 r-xp 00000000 08:01 2 /y\n"
      "7f0000050000-7f0000060000 r-xp 00000000 00:00 0 \n");
  FileTable files;
  OneFile source(data, size);
  unwind::Unwinder unwinder(files, source, 1'024);
  const UnwoundStack unwound = unwinder.unwind(snapshot, maps, 1).stack;
  check(unwound.frames.size() <= unwind::Unwinder::kFramesMax);

  symbolize::Symbolizer symbolizer(files, "/nonexistent");
  for (std::size_t i = 0; i < std::min(unwound.frames.size(), kResolvedMax); ++i) {
    const UnwoundFrame& frame = unwound.frames[i];
    if (frame.file == 0) continue;
    check(!symbolizer.resolve(frame.file, frame.address, frame.is_return).empty());
  }
  if (files.size() > 0) {
    for (std::uint64_t address = 0x1000; address < 0x1400; address += 64) {
      check(!symbolizer.resolve(1, address, true).empty());
    }
  }
  return 0;
}
