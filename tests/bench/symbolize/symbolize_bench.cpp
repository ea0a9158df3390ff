// SPDX-License-Identifier: Apache-2.0
// A large stripped library's symbols: the table once, then 5,000 addresses. PILLION_BENCH_LIBRARY names
// another file.
#include <benchmark/benchmark.h>
#include <fcntl.h>

#include <cstdlib>
#include <random>

#include "symbolize/symbolizer.h"

using namespace pillion;
using namespace pillion::symbolize;

namespace {

std::shared_ptr<const FileInfo> add_library(FileTable& files) {
  const char* named = std::getenv("PILLION_BENCH_LIBRARY");
  const std::string path = named != nullptr ? named : "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1";
  auto fd = std::make_shared<const UniqueFd>(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto elf = ElfFile::open({std::move(fd), nullptr}, path);
  return elf ? files.add(*elf) : nullptr;
}

std::vector<std::uint64_t> code_addresses(const FileInfo& info, unsigned count) {
  std::vector<std::uint64_t> addresses;
  std::mt19937_64 random(1);
  for (const auto& segment : info.segments)
    while (segment.executable && segment.file_bytes != 0 && addresses.size() < count)
      addresses.push_back(segment.vaddr + random() % segment.file_bytes);
  return addresses;
}

void open_file(benchmark::State& state) {
  FileTable files;
  const auto info = add_library(files);
  if (info == nullptr) return state.SkipWithError("SKIPPED: library not found");
  const auto address = code_addresses(*info, 1)[0];
  for (auto _ : state) {
    Symbolizer symbolizer(files);
    benchmark::DoNotOptimize(symbolizer.resolve(info->id, address, true));
  }
}
BENCHMARK(open_file)->Unit(benchmark::kMillisecond);

void addresses(benchmark::State& state, bool cached) {
  FileTable files;
  const auto info = add_library(files);
  if (info == nullptr) return state.SkipWithError("SKIPPED: library not found");
  const auto wanted = code_addresses(*info, 5000);
  SymbolizeLimits limits;
  if (!cached) limits.cached_addresses = 1;
  Symbolizer symbolizer(files, "/usr/lib/debug", limits);
  for (const auto address : wanted) (void)symbolizer.resolve(info->id, address, true);
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(symbolizer.resolve(info->id, wanted[next], true));
    next = next + 1 == wanted.size() ? 0 : next + 1;
  }
  const auto& counters = symbolizer.counters();
  state.counters["by_symbol_share"] =
      static_cast<double>(counters.named_by_symbol) / static_cast<double>(counters.computed);
}
BENCHMARK_CAPTURE(addresses, computed, false);
BENCHMARK_CAPTURE(addresses, cached, true);

}  // namespace
