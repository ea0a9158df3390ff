// SPDX-License-Identifier: Apache-2.0
// An idle profile in each of the formats.
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "export/folded.h"
#include "export/json.h"
#include "export/pprof.h"
#include "golden.h"
#include "idle_example.h"
#include "schema_check.h"

namespace pillion::exporting {
namespace {

using profile::IdleExample;

TEST_CASE("an idle profile's JSON follows the schema, which wants what is its own") {
  IdleExample e;
  auto json = nlohmann::json::parse(to_json(e.make_idle()));
  CHECK(complaints(json.dump()).empty());
  CHECK(json["type"] == "idle");
  CHECK(json["kernels"].empty());
  const auto& device = json["device_idle"][0];
  CHECK(device["busy_ns"] == 10'214);
  CHECK(device["idle_by_cause_ns"]["host-bound"] == 9'005);
  CHECK(device["kernel_concurrency"] == 1.5);
  CHECK(json["stacks"][0]["gpu_idle_ns"] == 9'000);
  CHECK_FALSE(json["stacks"][0].contains("gpu_time_ns"));
  json["stacks"][0].erase("gaps");
  CHECK(complaints(json.dump()).find("'gaps' is a required") != std::string::npos);
  json["type"] = "gpu";
  CHECK(complaints(json.dump()).find("'gpu_time_ns' is a required") != std::string::npos);
}

TEST_CASE("folded: the cause is the leaf") {
  IdleExample e;
  const std::string folded = to_folded(e.make_idle());
  CHECK(folded.find(
            "main;Model.forward (model.py:12);cudaLaunchKernel;cuLaunchKernel;idle: host-bound 9000\n") !=
        std::string::npos);
  CHECK(folded.find(
            "[nothing started before the window's end];[gap cut by the window's end];idle: unknown 11\n") !=
        std::string::npos);
}

TEST_CASE("go tool pprof reads it: types, default, labels, the sum by cause") {
  if (std::system("go version >/dev/null 2>&1") != 0) SKIP("no go: it is what reads the profile here");
  IdleExample e;
  const auto bytes = to_pprof(e.make_idle());
  REQUIRE(bytes);
  const TemporaryFile file(*bytes);
  const std::string raw = output_of("PPROF_TMPDIR=/tmp go tool pprof -raw " + file.path() + " 2>&1");
  CHECK(raw.find("gpu_idle/nanoseconds[dflt] gaps/count") != std::string::npos);
  CHECK(raw.find("cause:[host-bound]") != std::string::npos);
  const std::string top =
      output_of("PPROF_TMPDIR=/tmp go tool pprof -top -unit=ns -nodefraction=0 " + file.path() + " 2>&1");
  CHECK(top.find("9005ns") != std::string::npos);
  CHECK(top.find("idle: host-bound") != std::string::npos);
}

}  // namespace
}  // namespace pillion::exporting
