// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "run_probe.h"

namespace {

// What every run that loses nothing must show.
void check_clean(const Outcome& run) {
  CAPTURE(run.text);
  REQUIRE(run.exit_code == 0);
  CHECK(run.text.find("attach 0\n") != std::string::npos);
  CHECK(run.at("exits") == run.at("enters"));
  CHECK(run.at("mismatched") == 0);
  CHECK(run.at("unmatched") == 0);
  CHECK(run.at("dropped") == 0);
  CHECK(run.at("on_own_thread") == 0);
}

}  // namespace

TEST_CASE("all work is called back and recorded once, to the nanosecond") {
  const Outcome run = run_probe("mixed", "SIMGPU_KERNEL_SPREAD_NS=900");
  check_clean(run);
  CAPTURE(run.text);
  CHECK(run.at("first_correlation") == 1);
  CHECK(run.at("records_10") == 310);  // 200 axpy, 100 spin, 5 replays of 2; none for the 2 captured launches
  CHECK(run.at("records_1") == 11);    // 3 up, 3 down, 5 in the graph
  CHECK(run.at("records_22") == 3);
  CHECK(run.at("records_2") == 8);
  CHECK(run.at("records_38") >= 1);
  CHECK(run.at("records_8") == 1);
  CHECK(run.at("records_9") == 1);
  CHECK(run.at("records_37") == 2);
  CHECK(run.at("bytes_1") == 3 * 3000 + 5 * 4096);
  CHECK(run.at("bytes_22") == 1500);
  CHECK(run.at("bytes_2") == 3 * 400 + 5 * 4096);
  CHECK(run.at("nodes") == 4);
  CHECK(run.at("ns") == run.at("truth_ns"));
  CHECK(run.at("outside") == 0);
  CHECK(run.at("zero_stamps") == 0);
  CHECK(run.at("cbid_307") == 302);
  CHECK(run.at("cbid_514") == 5);
  CHECK(run.at("cbid_276") == 3);
  CHECK(run.at("cbid_279") == 3);
  CHECK(run.at("cbid_319") == 3);
  CHECK(run.at("resource_8") == 302);  // MODULE_PROFILED at each launch
  CHECK(run.at("resource_6") == 0);    // MODULE_LOADED is not replayed
  CHECK(run.at("resource_13") == 8);   // GRAPHNODE_CREATED inside the capture, and once more at instantiation
  CHECK(run.at("resource_20") == 4);
  CHECK(run.at("module_right") == 1);
}

TEST_CASE("records have the sizes of the real library of each version") {
  // Measured: the records that libcupti of CUDA 11.8, 12.8, 12.9U1 and 13.0U1 made on an H200, driver 580.
  struct Sizes {
    const char* version;
    std::uint64_t kernel, copy, set, device, context, stream, overhead, sync;
  };
  for (const Sizes& real :
       {Sizes{"18", 200, 88, 88, 176, 16, 24, 40, 40}, Sizes{"26", 208, 96, 88, 184, 32, 24, 56, 56},
        Sizes{"28", 208, 96, 88, 184, 32, 24, 56, 56}, Sizes{"130001", 216, 96, 88, 184, 32, 24, 56, 56}}) {
    const Outcome run = run_probe("mixed", std::string("SIMGPU_CUPTI_VERSION=") + real.version);
    check_clean(run);
    CAPTURE(run.text);
    CHECK(run.at("size_10") == real.kernel);
    CHECK(run.at("size_1") == real.copy);
    CHECK(run.at("size_22") == 96);
    CHECK(run.at("size_2") == real.set);
    CHECK(run.at("size_8") == real.device);
    CHECK(run.at("size_9") == real.context);
    CHECK(run.at("size_37") == real.stream);
    CHECK(run.at("size_17") == real.overhead);
    CHECK(run.at("size_38") == real.sync);
    CHECK(run.at("ns") == run.at("truth_ns"));
  }
}

TEST_CASE("threads that have ended leave their buffers to the flush") {
  const Outcome run = run_probe("threads", "SIMGPU_KERNEL_NS=100 SIMGPU_KERNEL_SPREAD_NS=100");
  check_clean(run);
  CAPTURE(run.text);
  CHECK(run.at("records_10") == 40000);
  CHECK(run.at("enters") == 40000);
  CHECK(run.at("ns") == run.at("truth_ns"));
  CHECK(run.at("buffers_out") == 0);
}

TEST_CASE("FlushAll(0) keeps a buffer with an incomplete record, FlushAll(1) gives it without stamps") {
  const Outcome run = run_probe("incomplete");
  CAPTURE(run.text);
  REQUIRE(run.exit_code == 0);
  CHECK(run.at("after_0") == 0);
  CHECK(run.at("after_1") == 2);
  CHECK(run.at("zero_stamps") >= 1);
}

TEST_CASE("finalize detaches; ids restart at the next attach") {
  const Outcome run = run_probe("reattach");
  check_clean(run);
  CAPTURE(run.text);
  CHECK(run.text.find("finalize 0") != std::string::npos);
  CHECK(run.at("enters_detached") == 2);
  CHECK(run.text.find("attach_again 0") != std::string::npos);
  CHECK(run.at("enters") == 3);
  CHECK(run.at("records_10") == 3);
  CHECK(run.at("last_correlation") < 10);
}

TEST_CASE("error codes are those of the real library") {
  const Outcome run = run_probe("errors");
  CAPTURE(run.text);
  REQUIRE(run.exit_code == 0);
  CHECK(run.at("version") == 130001);
  CHECK(run.at("second") == 39);
  CHECK(run.at("flush_unregistered") == 7);
  CHECK(run.at("register_null") == 1);
  CHECK(run.at("timestamp_null") == 1);
  CHECK(run.at("unknown_kind") == 14);
  CHECK(run.at("kernel_too") == 14);
  CHECK(run.at("pc_sampling") == 27);
  CHECK(run.at("unsubscribe_wrong") == 1);
  CHECK(run.at("bad_kind") == 21);
  CHECK(run.at("end") == 12);
  CHECK(run_probe("errors", "SIMGPU_CUPTI_VERSION=18").at("jit_kind") == 14);
}

TEST_CASE("a held subscriber refuses with 39 and names the holder, and the log shows every call") {
  const std::string log = "simgpu_call_log_test.txt";
  std::remove(log.c_str());
  const Outcome run = run_probe("errors", "SIMGPU_SUBSCRIBER_HELD=torch SIMGPU_CALL_LOG=" + log);
  CAPTURE(run.text);
  CHECK(run.at("subscribe") == 39);
  CHECK(run.text.find("holder 'torch'") != std::string::npos);
  std::ifstream file(log);
  std::stringstream text;
  text << file.rdbuf();
  CHECK(text.str().find("cuptiSubscribe 39\n") != std::string::npos);
  CHECK(text.str().find("cuptiSubscribe_v2 39\n") != std::string::npos);
  CHECK(text.str().find("cuptiPCSamplingEnable 27\n") != std::string::npos);
  std::remove(log.c_str());
}

TEST_CASE("a library newer than the driver refuses with 15, one of 11.7 kills the program") {
  CHECK(run_probe("errors", "SIMGPU_DRIVER_VERSION=12080").at("subscribe") == 15);
  const Outcome old = run_probe("errors", "SIMGPU_CUPTI_VERSION=17");
  CHECK((old.signal == SIGSEGV || old.exit_code != 0));
}

TEST_CASE("bad days on demand") {
  SECTION("correlation ids wrap past 0") {
    const Outcome run = run_probe("threads", "SIMGPU_KERNEL_NS=100 SIMGPU_CORRELATION_START=4294967000");
    CAPTURE(run.text);
    CHECK(run.at("records_10") == 40000);
    CHECK(run.at("unmatched") == 0);
    CHECK(run.at("first_correlation") == 1);
    CHECK(run.at("last_correlation") == 4294967295);
  }
  SECTION("dropped records are counted, once") {
    const Outcome run = run_probe("threads", "SIMGPU_KERNEL_NS=100 SIMGPU_DROP_EVERY=100");
    CAPTURE(run.text);
    CHECK(run.at("records_10") == 39600);
    CHECK(run.at("dropped") == 400);
    CHECK(run.at("dropped_again") == 0);
  }
  SECTION("records out of order") {
    CHECK(run_probe("mixed").at("disordered") < 30);
    const Outcome run = run_probe("mixed", "SIMGPU_OUT_OF_ORDER=1");
    CAPTURE(run.text);
    CHECK(run.at("disordered") > 100);
    CHECK(run.at("ns") == run.at("truth_ns"));
  }
  SECTION("a buffer of somebody else") {
    const Outcome run = run_probe("mixed", "SIMGPU_FOREIGN_BUFFER=1");
    CAPTURE(run.text);
    CHECK(run.exit_code == 0);
    CHECK(run.at("foreign_buffers") == 1);
    CHECK(run.at("records_10") == 310);
  }
  SECTION("the clock steps") {
    const Outcome run = run_probe("mixed", "SIMGPU_CLOCK_STEP_NS=-5000000000 SIMGPU_CLOCK_STEP_AFTER=100");
    CAPTURE(run.text);
    CHECK(run.at("outside") > 150);
    CHECK(run.at("ns") == run.at("truth_ns"));
  }
  SECTION("stamps of zero and stamps reversed") {
    const Outcome run = run_probe("threads", "SIMGPU_KERNEL_NS=100 SIMGPU_ZERO_STAMPS_EVERY=1000");
    CHECK(run.at("zero_stamps") == 40);
    const Outcome reversed = run_probe("threads", "SIMGPU_KERNEL_NS=100 SIMGPU_REVERSED_STAMPS_EVERY=1000");
    CHECK(reversed.at("zero_stamps") == 40);
  }
  SECTION("any CUPTI function can be made to fail") {
    CHECK(run_probe("mixed", "SIMGPU_FAULTS=cuptiActivityRegisterCallbacks:1:15").at("attach") == 15);
  }
}

TEST_CASE("finalize kills the program where the real one does, and nowhere else") {
  struct Row {
    const char* name;
    bool deadly;
  };
  for (const Row& row :
       {Row{"kernels", false}, Row{"graph-own-exit", false}, Row{"graph-control-thread", true},
        Row{"disabled-then-replay", true}, Row{"disabled-idle", false}, Row{"two-threads", true},
        Row{"two-threads-unsubscribe", false}, Row{"disabled-replay-enabled-replay", false},
        Row{"disabled-replay-enabled", true}, Row{"never-recorded", false}, Row{"held-at-enter", true}}) {
    const std::string knobs = std::string(row.name) == "disabled-idle" ? "SIMGPU_GRAPH_ACTIVE_MS=20" : "";
    const Outcome run = run_probe(std::string("detach ") + row.name, knobs);
    CAPTURE(row.name, run.text);
    CHECK(run.at("survived") == (row.deadly ? 0 : 1));
    CHECK((run.signal == SIGABRT) == row.deadly);
    CHECK((run.text.find("simgpu: cuptiFinalize kills the program") != std::string::npos) == row.deadly);
  }
  CHECK(run_probe("detach graph-own-exit", "SIMGPU_CUPTI_VERSION=18").signal == SIGABRT);
  CHECK(run_probe("detach two-threads", "SIMGPU_DETACH=forgiving").at("survived") == 1);
}

TEST_CASE("GRAPH_TRACE enabled after a graph was made crashes the next launch") {
  const Outcome run = run_probe("detach late-graph-trace");
  CAPTURE(run.text);
  CHECK(run.at("survived") == 0);
  CHECK((run.signal == SIGSEGV || run.exit_code != 0));
  CHECK(run_probe("detach late-graph-trace", "SIMGPU_GRAPH_TRACE_CRASH=0").at("survived") == 1);
}
