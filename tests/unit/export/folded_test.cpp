// SPDX-License-Identifier: Apache-2.0
#include "export/folded.h"

#include <catch2/catch_test_macros.hpp>
#include <sstream>

#include "example.h"
#include "golden.h"

namespace pillion::exporting {
namespace {

using profile::Example;

std::int64_t sum_of(const std::string& folded) {
  std::istringstream lines(folded);
  std::string line;
  std::int64_t sum = 0;
  while (std::getline(lines, line)) sum += std::stoll(line.substr(line.rfind(' ') + 1));
  return sum;
}

TEST_CASE("folded stacks are as in the golden file and add up for each value") {
  Example e;
  const profile::Profile p = e.make();
  check_golden("profile.folded", to_folded(p));
  std::uint64_t gpu = 0, count = 0, bytes = 0;
  for (const JoinedSample& s : e.data.samples) {
    gpu += s.gpu_ns;
    count += s.count;
    bytes += s.bytes;
  }
  CHECK(sum_of(to_folded(p)) == static_cast<std::int64_t>(gpu));
  CHECK(sum_of(to_folded(p, profile::kLaunches)) == static_cast<std::int64_t>(count));
  CHECK(sum_of(to_folded(p, profile::kCopiedBytes)) == static_cast<std::int64_t>(bytes));
}

TEST_CASE("a Python frame reads name, file and line") {
  Example e;
  e.add_python(77);
  CHECK(to_folded(e.make()).find(
            "main;[python frames missing];[python code 3];[python frames without their place];"
            "Model.forward (model.py:34);Model.forward (model.py:12);cudaLaunchKernel;"
            "cuLaunchKernel;gemm(float*, float*, int) 77\n") != std::string::npos);
}

TEST_CASE("a separator or line break in a name cannot make frames or lines") {
  Example e;
  e.data.names[1] = "evil;kernel 12\nmain;x 5";
  const std::string folded = to_folded(e.make());
  CHECK(folded.find("evil:kernel 12 main:x 5 ") != std::string::npos);
}

TEST_CASE("several processes are told apart") {
  Example e;
  e.input.targets.push_back(e.input.targets[0]);
  e.input.targets[1].id = 2;
  e.input.targets[1].pid = 78;
  const std::string folded = to_folded(e.make());
  CHECK(folded.find("train (77);main;") != std::string::npos);
  CHECK(folded.find("train (78);main;") != std::string::npos);
}

}  // namespace
}  // namespace pillion::exporting
