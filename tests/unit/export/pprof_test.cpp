// SPDX-License-Identifier: Apache-2.0
// What Go's own pprof reads out of our profiles is compared with the model.
#include "export/pprof.h"

#include <zlib.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <map>
#include <regex>
#include <sstream>

#include "example.h"
#include "golden.h"

namespace pillion::exporting {
namespace {

using profile::Example;
using profile::Profile;

std::string encoded(const Profile& p, int level = kGzipLevel) {
  auto bytes = to_pprof(p, level);
  REQUIRE(bytes.has_value());
  return std::move(*bytes);
}

// Output of `go tool pprof ARGS file`; skips the test where there is no Go.
std::string go_pprof(const std::string& arguments, const Profile& p) {
  if (std::system("go version >/dev/null 2>&1") != 0)
    SKIP("no go: package golang-go is what reads the profile here");
  const TemporaryFile file(encoded(p));
  return output_of("TZ=UTC PPROF_TMPDIR=/tmp go tool pprof " + arguments + " " + file.path() + " 2>&1");
}

std::int64_t total(const Profile& p, std::size_t value) {
  std::int64_t sum = 0;
  for (const profile::Sample& s : p.samples) sum += s.values[value];
  return sum;
}

// Flat values of `-top`, by name, for one sample type.
std::map<std::string, std::int64_t> top(const Profile& p, const std::string& type, const std::string& unit) {
  std::istringstream lines(
      go_pprof("-top -nodecount=100000 -nodefraction=0 -unit=" + unit + " -sample_index=" + type, p));
  std::map<std::string, std::int64_t> out;
  std::string line;
  bool in_table = false;
  while (std::getline(lines, line)) {
    if (line.find("flat%") != std::string::npos) {
      in_table = true;
      continue;
    }
    if (!in_table) continue;
    std::istringstream words(line);
    std::string flat, flat_percent, sum_percent, cum, cum_percent, name;
    words >> flat >> flat_percent >> sum_percent >> cum >> cum_percent;
    std::getline(words >> std::ws, name);
    out[name] = std::stoll(flat);
  }
  return out;
}

TEST_CASE("go tool pprof -top gives the model's figure for every kernel and every sample type") {
  Example e;
  const Profile p = e.make();
  static constexpr const char* kUnits[] = {"ns", "count", "ns", "B", "ns"};
  for (std::size_t value = 0; value < profile::kValues; ++value) {
    CAPTURE(value);
    const auto flat = top(p, p.value_types[value].type, kUnits[value]);
    for (const profile::Kernel& kernel : p.kernels) {
      if (kernel.values[value] == 0) continue;
      CAPTURE(p.text(kernel.name));
      REQUIRE(flat.contains(p.text(kernel.name)));
      CHECK(flat.at(p.text(kernel.name)) == kernel.values[value]);
    }
  }
}

TEST_CASE("go tool pprof -raw shows types, default, times, labels and comments as they are in the model") {
  Example e;
  const Profile p = e.make();
  const std::string raw = go_pprof("-raw", p);
  CAPTURE(raw);
  CHECK(raw.find("gpu_time/nanoseconds[dflt] launches/count queue_time/nanoseconds copied/bytes") !=
        std::string::npos);
  CHECK(raw.find("Duration: 20") != std::string::npos);
  CHECK(raw.find("device:[0 id]") != std::string::npos);  // a number 0 survives because it has a unit
  CHECK(raw.find("attribution:[exact]") != std::string::npos);
  CHECK(raw.find("1: 0x550010000000/0x550010100000/0x0 /app/train abcdef01 [FN]") != std::string::npos);
  std::istringstream lines(raw);
  std::string line;
  std::array<std::int64_t, profile::kValues> sums{};
  std::size_t samples = 0;
  bool in_samples = false;
  while (std::getline(lines, line)) {
    if (line.starts_with("Samples:")) in_samples = true;
    if (line.starts_with("Locations")) break;
    const auto colon = line.find(": ");
    if (!in_samples || colon == std::string::npos || line.find_first_not_of(" 0123456789", 0) != colon)
      continue;
    std::istringstream numbers(line.substr(0, colon));
    for (std::int64_t& sum : sums) {
      std::int64_t value = 0;
      numbers >> value;
      sum += value;
    }
    ++samples;
  }
  CHECK(samples == p.samples.size());
  for (std::size_t value = 0; value < profile::kValues; ++value) CHECK(sums[value] == total(p, value));
}

TEST_CASE("go tool pprof -comments carries the quality block") {
  Example e;
  const std::string comments = go_pprof("-comments", e.make());
  CHECK(comments.find("executions=27") != std::string::npos);
  CHECK(comments.find("launched_before_session=2") != std::string::npos);
  CHECK(comments.find("anomaly=invalid_stamps_zero 1 ") != std::string::npos);
}

TEST_CASE("go tool pprof -traces prints whole stacks") {
  Example e;
  check_golden("profile.traces.txt", go_pprof("-traces -sample_index=gpu_time", e.make()), "-----------+");
}

TEST_CASE("go tool pprof -list shows the lines of a Python function, -lines tells them apart") {
  std::string source;
  for (int line = 1; line < 40; ++line) source += "line_" + std::to_string(line) + "()\n";
  const TemporaryFile file(source);
  Example e;
  struct Python : profile::FakeResolver {
    std::string path;
    std::optional<profile::SourceFrame> resolve_python(SessionId session,
                                                       const UnwoundFrame& frame) override {
      auto found = FakeResolver::resolve_python(session, frame);
      if (found) found->file = path;
      return found;
    }
  } resolver;
  resolver.path = file.path();
  e.add_python(77);
  const StackId other =
      e.stacks.intern(profile::stack_below_capture({UnwoundFrame::python(1, 130), {1, 0x200}}));
  e.data.samples.push_back(profile::joined_sample(1, 11, other));
  const Profile p = profile::build(e.input, resolver);
  const std::string list = go_pprof("-list Model.forward -unit=ns", p);
  CAPTURE(list);
  CHECK(std::regex_search(list, std::regex(" 77ns +12:line_12\\(\\)")));
  CHECK(std::regex_search(list, std::regex(" 11ns +13:line_13\\(\\)")));
  CHECK(std::regex_search(list, std::regex(" 77ns +34:line_34\\(\\)")));
  const std::string lines = go_pprof("-top -cum -lines -nodefraction=0 -unit=ns", p);
  CAPTURE(lines);
  CHECK(lines.find("Model.forward " + file.path() + ":12") != std::string::npos);
  CHECK(lines.find("Model.forward " + file.path() + ":13") != std::string::npos);
}

TEST_CASE("hostile names and an empty profile are read by go tool pprof") {
  Example hostile;
  hostile.data.names[1] = std::string(1u << 20, '\xff') + "\n: 1 2 3\"";
  hostile.data.threads[4242] = std::string("\xff\x00\x1b;", 4);
  CHECK(go_pprof("-raw", hostile.make()).find("Samples:") != std::string::npos);
  Example empty;
  empty.data.samples.clear();
  CHECK(go_pprof("-comments", empty.make()).find("launches=25") != std::string::npos);
}

TEST_CASE("the gzip stream holds the message, at every level") {
  Example e;
  const Profile p = e.make();
  const std::string plain = to_pprof_message(p);
  for (const int level : {1, 6, 9}) {
    const std::string packed = encoded(p, level);
    std::string out(plain.size() + 100, '\0');
    z_stream stream{};
    REQUIRE(inflateInit2(&stream, 15 + 16) == Z_OK);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream.avail_in = static_cast<uInt>(packed.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    CHECK(inflate(&stream, Z_FINISH) == Z_STREAM_END);
    out.resize(stream.total_out);
    inflateEnd(&stream);
    CHECK(out == plain);
  }
  CHECK_FALSE(to_pprof(p, 77).has_value());
}

}  // namespace
}  // namespace pillion::exporting
