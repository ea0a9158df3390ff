// SPDX-License-Identifier: Apache-2.0
#include "symbolize/symbolizer.h"

#include <catch2/catch_test_macros.hpp>

#include "sample_library.h"

using namespace pillion;
using namespace pillion::symbolize;
using namespace pillion::test;

namespace {

const LoadedSample& loaded() {
  static const LoadedSample sample(SAMPLE_FOLDER "/libsample.so");
  return sample;
}

void require_inlined_chain(const std::vector<ResolvedFrame>& frames, const SampleFacts& facts) {
  REQUIRE(frames.size() == 3);
  CHECK(frames[0].function.starts_with("inner_inlined"));
  CHECK(frames[0].line == static_cast<std::uint32_t>(facts.inner_line));
  CHECK(frames[0].inlined);
  CHECK(frames[1].function.starts_with("middle_inlined"));
  CHECK(frames[1].line == static_cast<std::uint32_t>(facts.middle_line));
  CHECK(frames[1].inlined);
  CHECK(frames[2].function == "sample::outer(sample::Argument const&, int)");
  CHECK(frames[2].system_name == "_ZN6sample5outerERKNS_8ArgumentEi");
  CHECK(frames[2].line == static_cast<std::uint32_t>(facts.outer_line));
  CHECK(frames[2].start_line == static_cast<std::uint32_t>(facts.outer_start_line));
  CHECK_FALSE(frames[2].inlined);
  for (const auto& frame : frames) CHECK(frame.source.ends_with("sample_functions.cpp"));
}

std::string hex(std::uint64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

}  // namespace

TEST_CASE("inline frames, lines and names come from debug info") {
  const auto& sample = loaded();
  FileTable files;
  Symbolizer symbolizer(files);
  const auto file = add_file(files, SAMPLE_FOLDER "/libsample.so");
  REQUIRE(file != 0);
  require_inlined_chain(symbolizer.resolve(file, sample.address(sample.facts.inline_return), true),
                        sample.facts);
  const auto exported = symbolizer.resolve(file, sample.exported, false);
  REQUIRE(exported.size() == 1);
  CHECK(exported[0].function == "exported_c_function");
  CHECK(exported[0].system_name == "exported_c_function");
  CHECK(exported[0].start_line > 0);
  CHECK(symbolizer.resolve(file, sample.address(sample.facts.local_function), false)[0].function.starts_with(
      "local_function("));
  CHECK(symbolizer.counters().named_by_debug_info == 3);
}

TEST_CASE("code that clang built, without .debug_aranges, has inline frames too") {
  if (!HAVE_CLANG) SKIP("no clang++");
  const LoadedSample sample(SAMPLE_FOLDER "/libsample_clang.so");
  FileTable files;
  Symbolizer symbolizer(files);
  const auto file = add_file(files, SAMPLE_FOLDER "/libsample_clang.so");
  require_inlined_chain(symbolizer.resolve(file, sample.address(sample.facts.inline_return), true),
                        sample.facts);
}

TEST_CASE("a separate debug file is found by build-id") {
  const auto& sample = loaded();
  FileTable files;
  Symbolizer symbolizer(files, SAMPLE_FOLDER "/debug");
  const auto file = add_file(files, SAMPLE_FOLDER "/libsample_stripped.so");
  require_inlined_chain(symbolizer.resolve(file, sample.address(sample.facts.inline_return), true),
                        sample.facts);
}

TEST_CASE("without debug info names come from symbols, within their size") {
  const auto& sample = loaded();
  FileTable files;
  Symbolizer symbolizer(files, "/nonexistent");
  const auto file = add_file(files, SAMPLE_FOLDER "/libsample_symbols.so");
  const auto& frames = symbolizer.resolve(file, sample.address(sample.facts.inline_return), true);
  REQUIRE(frames.size() == 1);
  CHECK(frames[0].function == "sample::outer(sample::Argument const&, int)");
  CHECK(frames[0].line == 0);
  CHECK(symbolizer.resolve(file, sample.address(sample.facts.hidden_function) + 1, false)[0].function ==
        "hidden_function(int)");
  CHECK(symbolizer.counters().named_by_symbol == 2);
}

TEST_CASE("a function of a stripped library is named by where it starts") {
  const auto& sample = loaded();
  FileTable files;
  Symbolizer symbolizer(files, "/nonexistent");
  const auto file = add_file(files, SAMPLE_FOLDER "/libsample_stripped.so");
  CHECK(symbolizer.resolve(file, sample.exported + 1, false)[0].function == "exported_c_function");
  for (const void* function : {sample.facts.local_function, sample.facts.hidden_function}) {
    const auto start = sample.address(function);
    CHECK(symbolizer.resolve(file, start, false)[0].function == "libsample.so.1+" + hex(start));
    CHECK(symbolizer.resolve(file, start + 3, true)[0].function == "libsample.so.1+" + hex(start));
  }
  CHECK(symbolizer.counters().named_by_range == 4);
}

TEST_CASE("symbols packed into .gnu_debugdata name the functions of a stripped library") {
  if (!HAVE_XZ) SKIP("no xz to pack symbols with");
  const auto& sample = loaded();
  FileTable files;
  Symbolizer symbolizer(files, "/nonexistent");
  const auto file = add_file(files, SAMPLE_FOLDER "/libsample_packed.so");
  CHECK(symbolizer.resolve(file, sample.address(sample.facts.local_function), false)[0].function ==
        "local_function(int)");
}

TEST_CASE("frames without a readable file still get a name") {
  FileTable files;
  Symbolizer symbolizer(files);
  const auto unreadable = files.add_unreadable("/opt/gone/libgone.so.3", 1, 2);
  REQUIRE(unreadable != nullptr);
  CHECK(symbolizer.resolve(unreadable->id, 0x1235, true)[0].function == "libgone.so.3+0x1234");
  CHECK(symbolizer.resolve(0, 0x1234, true)[0].function == "[code without a file]");
  CHECK(symbolizer.resolve(4711, 0x1234, true)[0].function == "[code without a file]");
}

TEST_CASE("caches are bounded and stay right") {
  const auto& sample = loaded();
  FileTable files;
  Symbolizer symbolizer(files, "/nonexistent", {4, 1});
  const auto full = add_file(files, SAMPLE_FOLDER "/libsample.so");
  const auto stripped = add_file(files, SAMPLE_FOLDER "/libsample_stripped.so");
  const auto symbols = add_file(files, SAMPLE_FOLDER "/libsample_symbols.so");
  for (int round = 0; round < 3; ++round) {
    for (const auto file : {full, stripped, symbols})
      for (unsigned byte = 0; byte < 3; ++byte)
        REQUIRE(symbolizer.resolve(file, sample.exported + byte, false)[0].function == "exported_c_function");
  }
  CHECK(symbolizer.counters().files_evicted > 0);
  const auto computed = symbolizer.counters().computed;
  (void)symbolizer.resolve(symbols, sample.exported + 2, false);
  CHECK(symbolizer.counters().computed == computed);
}
