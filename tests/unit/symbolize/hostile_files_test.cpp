// SPDX-License-Identifier: Apache-2.0
// Files as a workload could make them: whatever they hold, an error or a name comes back.
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "sample_library.h"
#include "symbolize/symbolizer.h"

using namespace pillion;
using namespace pillion::symbolize;
using namespace pillion::test;

namespace {

std::vector<char> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Result<ElfFile> open_bytes(const std::vector<char>& bytes) {
  UniqueFd fd(::memfd_create("sample", MFD_CLOEXEC));
  REQUIRE(::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  return ElfFile::open({std::make_shared<const UniqueFd>(std::move(fd)), nullptr}, "sample");
}

// PILLION_HOSTILE_ROUNDS=N: N rounds more, from another start, for a longer search by hand.
unsigned extra_rounds() {
  const char* text = std::getenv("PILLION_HOSTILE_ROUNDS");
  return text == nullptr ? 0 : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

}  // namespace

TEST_CASE("what is not an ELF file of this machine is refused with a reason") {
  CHECK_FALSE(open_bytes({}));
  CHECK_FALSE(open_bytes(std::vector<char>(100, 'x')));
  auto bytes = read_file(SAMPLE_FOLDER "/libsample.so");
  REQUIRE(bytes.size() > 4096);
  CHECK(open_bytes(bytes));
  auto other_machine = bytes;
  other_machine[18] = 40;  // EM_ARM
  const auto refused = open_bytes(other_machine);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message().find("x86-64") != std::string::npos);
  UniqueFd folder(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  CHECK_FALSE(ElfFile::open({std::make_shared<const UniqueFd>(std::move(folder)), nullptr}, "/"));
}

TEST_CASE("mutated and cut files give names or errors") {
#if defined(__SANITIZE_ADDRESS__)
  // libelf 0.188 forgets section data of a few malformed files at elf_end(): one section's bytes per file.
  const __lsan::ScopedDisabler not_ours;
#endif
  const auto original = read_file(SAMPLE_FOLDER "/libsample.so");
  std::mt19937 random(11 + extra_rounds());
  unsigned opened = 0;
  for (int round = 0; round < 400 + static_cast<int>(extra_rounds()); ++round) {
    auto bytes = original;
    const bool in_headers = round % 2 == 0;
    for (unsigned change = 0; change < 1 + random() % 40; ++change) {
      const std::size_t tail = std::min<std::size_t>(bytes.size(), 64U * 40U);
      const std::size_t at = in_headers
                                 ? (random() % 2 == 0 ? random() % 1024 : bytes.size() - 1 - random() % tail)
                                 : random() % bytes.size();
      bytes[at] = static_cast<char>(random());
    }
    if (round % 5 == 0) bytes.resize(random() % bytes.size());
    const auto file = open_bytes(bytes);
    if (!file) continue;
    ++opened;
    FileTable files;
    const auto info = files.add(*file);
    REQUIRE(info != nullptr);
    Symbolizer symbolizer(files, "/nonexistent");
    for (std::uint64_t address = 0x1000; address < 0x1400; address += 7)
      REQUIRE_FALSE(symbolizer.resolve(info->id, address, true).empty());
  }
  CHECK(opened > 50);
}
