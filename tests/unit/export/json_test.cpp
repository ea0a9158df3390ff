// SPDX-License-Identifier: Apache-2.0
#include "export/json.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "example.h"
#include "golden.h"
#include "schema_check.h"

namespace pillion::exporting {
namespace {

using profile::Example;
using profile::Profile;

TEST_CASE("JSON follows its schema") {
  Example e;
  CHECK(complaints(to_json(e.make())).empty());
  e.data.samples.clear();
  CHECK(complaints(to_json(e.make())).empty());
  profile::BuildInput none;
  CHECK(complaints(to_json(profile::build(none, e.resolver))).empty());
}

TEST_CASE("a Python frame says so, with file and line, and follows the schema") {
  Example e;
  e.add_python(77);
  const std::string document = to_json(e.make());
  CHECK(complaints(document).empty());
  std::vector<int> lines;
  const auto json = nlohmann::json::parse(document);
  for (const auto& frame : json["frames"]) {
    if (!frame.contains("python")) continue;
    CHECK(frame["python"] == true);
    CHECK_FALSE(frame.contains("mapping"));
    CHECK(frame["lines"].size() == 1);
    CHECK(frame["lines"][0]["function"] == "Model.forward");
    CHECK(frame["lines"][0]["file"] == "/app/model.py");
    lines.push_back(frame["lines"][0]["line"]);
  }
  CHECK(lines == std::vector<int>{12, 34});
}

TEST_CASE("the schema refuses what is not a profile") {
  Example e;
  auto json = nlohmann::json::parse(to_json(e.make()));
  json["stacks"][0]["gpu_time_ns"] = -1;
  json["devices"][0].erase("uuid");
  json["surprise"] = 1;
  const std::string said = complaints(json.dump());
  CHECK(said.find("-1 is less than") != std::string::npos);
  CHECK(said.find("'uuid' is a required") != std::string::npos);
  CHECK(said.find("surprise") != std::string::npos);
}

TEST_CASE("JSON has the model's numbers") {
  Example e;
  const Profile p = e.make();
  const auto json = nlohmann::json::parse(to_json(p));
  std::int64_t stacks = 0, kernels = 0;
  for (const auto& stack : json["stacks"]) {
    stacks += stack["gpu_time_ns"].get<std::int64_t>();
    for (const auto& frame : stack["frames"]) CHECK(frame.get<std::size_t>() < json["frames"].size());
  }
  for (const auto& kernel : json["kernels"]) kernels += kernel["gpu_time_ns"].get<std::int64_t>();
  std::uint64_t expected = 0;
  for (const JoinedSample& s : e.data.samples) expected += s.gpu_ns;
  CHECK(stacks == static_cast<std::int64_t>(expected));
  CHECK(kernels == stacks);
  CHECK(json["quality"]["executions"] == 27);
  CHECK(json["window"]["duration_ns"] == 20'000'000'000);
  CHECK(json["stacks"][0]["labels"]["device"] == 0);
}

TEST_CASE("JSON has the pod of a process, as far as it is known") {
  Example e;
  CHECK_FALSE(nlohmann::json::parse(to_json(e.make()))["processes"][0].contains("pod"));
  e.input.targets[0].pod = {"train-0", "ml", "node-7", ""};
  const auto text = to_json(e.make());
  CHECK(complaints(text).empty());
  const auto process = nlohmann::json::parse(text)["processes"][0];
  CHECK(process["pod"] == "train-0");
  CHECK(process["namespace"] == "ml");
  CHECK(process["node"] == "node-7");
  CHECK_FALSE(process.contains("container"));
}

TEST_CASE("JSON is as in the golden file") {
  Example e;
  check_golden("profile.json", nlohmann::ordered_json::parse(to_json(e.make())).dump(1) + "\n");
}

TEST_CASE("hostile names stay valid JSON, from the builder and from a model made by hand") {
  Example e;
  e.data.names[1] = std::string(1u << 20, '\xff') + "\"\\\n";
  e.data.threads[4242] = std::string("\xff\x00\x1b", 3);
  CHECK(complaints(to_json(e.make())).empty());
  Profile raw = e.make();
  for (std::string& text : raw.texts) text += "\xff\xfe";
  raw.processes.at(0).comm = "\xc0";
  CHECK(nlohmann::json::accept(to_json(raw)));
}

TEST_CASE("where no launch's duration was recorded there is no launch_time, and the schema takes that") {
  Example e;
  e.input.targets.at(0).quality.settings.kinds = PILLION_KIND_KERNEL | PILLION_KIND_STACKS;
  const std::string text = to_json(e.make());
  CHECK(complaints(text).empty());
  const auto json = nlohmann::json::parse(text);
  CHECK_FALSE(json["kernels"][0].contains("launch_time_ns"));
  CHECK_FALSE(json["stacks"][0].contains("launch_time_ns"));
  CHECK(json["stacks"][0].contains("copied_bytes"));
  CHECK(text.find("calls_not_recorded") != std::string::npos);
}

}  // namespace
}  // namespace pillion::exporting
