// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>

#include "run_probe.h"

namespace {

// The number after "key": in the workload's own part of its last line.
std::uint64_t number(const std::string& text, const std::string& key, std::size_t from = 0) {
  const std::size_t at = text.find("\"" + key + "\":", from);
  REQUIRE(at != std::string::npos);
  return std::strtoull(text.c_str() + at + key.size() + 3, nullptr, 10);
}

Outcome run_workload(const std::string& line,
                     const std::string& environment = "SIMGPU_KERNEL_SPREAD_NS=700") {
  const Outcome run = run_program(SIMGPU_WORKLOADS "/" + line + " --seconds 20", environment);
  CAPTURE(line, run.text);
  REQUIRE(run.exit_code == 0);
  // What the program says it launched is what the double says, and so is the time.
  const std::size_t simulated = run.text.find("\"simgpu\":{");
  REQUIRE(simulated != std::string::npos);
  CHECK(number(run.text, "gpu_ns") == number(run.text, "gpu_ns", simulated));
  CHECK(number(run.text, "launches") ==
        number(run.text, "launches", simulated) + number(run.text, "graph_launches", simulated));
  return run;
}

std::uint64_t executions(const Outcome& run) {
  return number(run.text, "executions", run.text.find("\"simgpu\":{"));
}

}  // namespace

TEST_CASE("each workload's own count is the double's truth") {
  CHECK(executions(run_workload("launch_loop --iterations 5000 --threads 4 --streams 3")) == 5000);
  CHECK(executions(run_workload("streams_threads --iterations 20 --threads 4 --streams 3")) == 20 * 4 * 6);
  const Outcome deep = run_workload("deep_stacks --iterations 50");
  CHECK(number(deep.text, "recurse") == 50);
  CHECK(number(deep.text, "Nested") == 50);
  CHECK(number(deep.text, "Block") == 50);
  CHECK(number(deep.text, "through_qsort") >= 50);  // a sanitizer's qsort compares once more
  CHECK(executions(deep) == 150 + number(deep.text, "through_qsort"));
  CHECK(executions(run_workload("fiber --iterations 100")) == 100);
  CHECK(executions(run_workload("signal_stack --iterations 100")) == 100);
  CHECK(executions(run_workload("many_threads --iterations 2 --rate 100000")) == 1024);
}

TEST_CASE("copies and graphs execute what they say") {
  const Outcome copies = run_workload("copies --iterations 10 --bytes 65536");
  CHECK(executions(copies) == 10 * 8);
  // Nodes 6 and 14 of 16 are copies, 7 and 15 sets.
  const Outcome graph = run_workload("graph_replay --iterations 25 --threads 2 --nodes 16");
  CHECK(executions(graph) == 2 * 25 * 16);
  CHECK(number(graph.text, "replays") == 50);
}

TEST_CASE("checked counts what it replays and launches, and finds a round that differs") {
  const Outcome sound = run_workload("checked --threads 3 --graphs 1 --iterations 5 --round 50");
  const std::size_t truth = sound.text.find("\"workload\"");
  CHECK(number(sound.text, "replays", truth) == 5 * 50);
  CHECK(sound.text.find("\"rounds\":[5,5,5],\"wrong\":[0,0,0]", truth) != std::string::npos);
  const Outcome spoiled = run_workload("checked --threads 2 --iterations 5 --round 50 --spoil 3");
  CHECK(spoiled.text.find("\"wrong\":[1,1]", spoiled.text.find("\"workload\"")) != std::string::npos);
}

TEST_CASE("a library loaded late launches, too") {
  const Outcome run = run_workload("dlopen_late --iterations 2000 --rate 4000 --delay 0.1");
  CHECK(number(run.text, "own") + number(run.text, "late") == 2000);
  CHECK(number(run.text, "late") > 100);
}

TEST_CASE("fork and exec") {
  const Outcome forked = run_workload("fork_child --iterations 400 --rate 2000 --delay 0.05");
  CHECK(number(forked.text, "children") >= 1);
  const Outcome execed =
      run_program(SIMGPU_WORKLOADS "/exec_other --rate 1000 --delay 0.1 --command 'echo exec 5'");
  CHECK(execed.at("exec") == 5);
}

TEST_CASE("SIGTERM ends a workload with its truth; with all signals blocked it comes by signalfd") {
  for (const char* name : {"signalfd_loop", "launch_loop"}) {
    // timeout(1) sends SIGTERM to the program alone, after half a second.
    const Outcome run = run_program(std::string("timeout --preserve-status 0.5 " SIMGPU_WORKLOADS "/") +
                                    name + " --seconds 0 --rate 1000");
    CAPTURE(run.text);
    CHECK(run.exit_code == 0);
    CHECK(number(run.text, "launches") > 0);
    if (std::string(name) == "signalfd_loop") CHECK(number(run.text, "signal") == 15);
  }
}

TEST_CASE("an option that does not exist is refused by name") {
  const Outcome run = run_program(SIMGPU_WORKLOADS "/launch_loop --stream 3");
  CHECK(run.exit_code == 2);
  CHECK(run.text.find("no option 'stream'") != std::string::npos);
}
