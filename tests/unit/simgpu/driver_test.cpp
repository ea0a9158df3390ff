// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "run_probe.h"

TEST_CASE("cuInit loads the injected library on the calling thread, before it has returned") {
  const Outcome run = run_probe("inject", "CUDA_INJECTION64_PATH=" SIMGPU_INJECTED);
  CAPTURE(run.text);
  REQUIRE(run.exit_code == 0);
  CHECK(run.at("injected_tid") == run.at("tid"));
  CHECK(run.at("injected_count") == 3);  // CUDA_ERROR_NOT_INITIALIZED
  CHECK(run.text.find("injected_init 0") != std::string::npos);
  CHECK(run.text.find("count 0") != std::string::npos);
}

TEST_CASE("a path that names no library, and a library without the entry point, are as good as none") {
  for (const char* path : {"", "/nowhere/lib.so", "/etc/passwd", "libm.so.6"}) {
    const Outcome run = run_probe("inject", std::string("CUDA_INJECTION64_PATH=") + path);
    CAPTURE(path, run.text);
    CHECK(run.exit_code == 0);
    CHECK(run.text.find("init 0") != std::string::npos);
    CHECK(run.values.count("injected_tid") == 0);
  }
}

TEST_CASE("streams run in order and beside each other, in real and in virtual time") {
  for (const bool virtual_time : {false, true}) {
    const Outcome run = run_probe("driver", virtual_time ? "SIMGPU_VIRTUAL_TIME=1" : "");
    CAPTURE(virtual_time, run.text);
    REQUIRE(run.exit_code == 0);
    CHECK(run.at("query_busy") == 600);
    CHECK(run.text.find("query_done 0") != std::string::npos);
    CHECK(run.at("took_ns") >= 80'000'000);  // 4 x 20 ms on each of two streams at once
    CHECK(run.at("took_ns") < 160'000'000);
    CHECK(run.at("host_after_ns") >= 80'000'000);
    CHECK(run.at("event_us") >= 80'000);
    CHECK(run.at("event_us") < 82'000);
    CHECK(run.at("gpu_ns") == 160'000'000);
    CHECK(run.at("missing_kernel") == 500);
    CHECK(run.at("no_ptx") == 200);
    CHECK(run.at("export_table") == 500);
    CHECK(run.at("proc_right") == 1);
  }
}

TEST_CASE("CUDA does not survive fork") {
  const Outcome run = run_probe("driver", "SIMGPU_VIRTUAL_TIME=1");
  CAPTURE(run.text);
  CHECK(run.at("child_launch") == 3);
  CHECK(run.at("child_init") == 3);
}

TEST_CASE("the fault table fails the calls it names, and those leave no record") {
  const Outcome run = run_probe("faults", "SIMGPU_FAULTS=cuLaunchKernel:2:719,cuLaunchKernel:4+:700");
  CAPTURE(run.text);
  REQUIRE(run.exit_code == 0);
  CHECK(run.text.find("launch_1 0") != std::string::npos);
  CHECK(run.at("launch_2") == 719);
  CHECK(run.text.find("launch_3 0") != std::string::npos);
  CHECK(run.at("launch_4") == 700);
  CHECK(run.at("launch_5") == 700);
  CHECK(run.at("enters") == 5);
  CHECK(run.at("failed") == 3);
  CHECK(run.at("records_10") == 2);
}

TEST_CASE("the truth is written at exit") {
  const std::string path = "simgpu_truth_test.json";
  const Outcome run =
      run_program(SIMGPU_LAUNCH_LOOP " --iterations 1000 --threads 3 --streams 2 --seconds 30",
                  "SIMGPU_TRUTH=" + path + " SIMGPU_KERNEL_SPREAD_NS=500");
  CAPTURE(run.text);
  REQUIRE(run.exit_code == 0);
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  CHECK(text.str().find("\"launches\":1000,") != std::string::npos);
  CHECK(run.text.find("\"launches\":1000,") != std::string::npos);
  // The workload's line and the file name the same sum.
  const std::size_t at = run.text.find("\"gpu_ns\":");
  REQUIRE(at != std::string::npos);
  CHECK(text.str().find(run.text.substr(at, run.text.find(',', at) - at)) != std::string::npos);
  std::remove(path.c_str());
}
