// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <sys/resource.h>

#include "commands/command_fixture.h"
#include "commands/stop_signals.h"
#include "commands/workload.h"

namespace pillion::commands {
namespace {

using std::chrono::milliseconds;

class RecordFixture : public CommandFixture {
 public:
  RecordFixture() : output(folder / "out.pb.gz") { write_file(folder / "libpillion.so", "shim"); }

  [[nodiscard]] std::vector<std::string> with_command(const std::string& shell) const {
    return {"record", "-o", output, "--", "/bin/sh", "-c", shell};
  }

  const std::filesystem::path output;
};

TEST_CASE_METHOD(RecordFixture, "record writes one profile of the asked length and kind") {
  auto recording =
      start_record({"record", "-duration", "50ms", "-pid", "42", "-format", "folded", "-o", output});
  REQUIRE(finished(recording));
  CHECK(recording.get() == kDone);
  CHECK(contents(output) == "profile of gpu");
  const auto request = script.service.requests().at(0);
  CHECK(request.duration == milliseconds(50));
  CHECK(request.pid == 42u);
  CHECK(request.format == http::ProfileFormat::folded);
  CHECK(request.end_with_targets);
  CHECK(script.stops == 1);
}

TEST_CASE_METHOD(RecordFixture, "a signal ends the window, and the profile is complete") {
  const int signal = GENERATE(SIGINT, SIGTERM);
  auto recording = start_record({"record", "-duration", "1h", "-o", output});
  REQUIRE(script.service.wait_open(1));
  ::kill(::getpid(), signal);
  REQUIRE(finished(recording));
  CHECK(recording.get() == kDone);
  CHECK(contents(output) == "profile of gpu");
}

TEST_CASE_METHOD(RecordFixture, "errors become exit codes, and leave no file") {
  const auto [code, exit] =
      GENERATE(table<http::ErrorCode, int>({{http::ErrorCode::no_shim, kNoShim},
                                            {http::ErrorCode::subscriber_held, kRefused},
                                            {http::ErrorCode::refused, kRefused},
                                            {http::ErrorCode::needs_grant, kRefused},
                                            {http::ErrorCode::unknown_pid, kTargetGone},
                                            {http::ErrorCode::target_gone, kTargetGone},
                                            {http::ErrorCode::no_gpu_records, kInternal}}));
  script.service.set_error({code, "no", "do"});
  script.service.release_windows();
  auto recording = start_record({"record", "-o", output});
  REQUIRE(finished(recording));
  CHECK(recording.get() == exit);
  CHECK_FALSE(std::filesystem::exists(output));
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 1);  // the shim
}

TEST_CASE_METHOD(RecordFixture, "no shim within the time is 3") {
  script.shim_comes = false;
  auto recording = start_record({"record", "-wait-for-shim", "20ms", "-o", output});
  REQUIRE(finished(recording));
  CHECK(recording.get() == kNoShim);
}

TEST_CASE_METHOD(RecordFixture, "a shim that another sidecar holds is 4, a process that is not there is 5") {
  script.shim_comes = false;
  script.refuses = "the shim of process 42 does not take this sidecar: pid 7";
  auto held = start_record({"record", "-wait-for-shim", "20ms", "-o", output});
  REQUIRE(finished(held));
  CHECK(held.get() == kRefused);
  script.target_gone = true;
  auto gone = start_record({"record", "-pid", "4194304", "-o", output});
  REQUIRE(finished(gone));
  CHECK(gone.get() == kTargetGone);
}

TEST_CASE_METHOD(RecordFixture, "an injection that failed is 1, at once") {
  script.shim_comes = false;
  script.injection_fails = true;
  script.refuses = "make a memory file in process 42: Too many open files";
  auto failed = start_record({"record", "-pid", "42", "-inject", "-wait-for-shim", "1h", "-o", output});
  REQUIRE(finished(failed));
  CHECK(failed.get() == kInternal);
}

TEST_CASE_METHOD(RecordFixture,
                 "what stood under the name stays when the profile does not fit, which is kept") {
  write_file(output, "the last one");
  script.service.set_body(std::string(100'000, 'x'));
  script.service.release_windows();
  const auto kept_folder = folder / "kept";
  std::filesystem::create_directory(kept_folder);
  ::setenv("TMPDIR", kept_folder.c_str(), 1);
  // Files of this process may not grow past half of the profile; its own memory is no file.
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit half{50'000, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &half) == 0);
  auto recording = start_record({"record", "-o", output});
  const bool ended = finished(recording);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  ::unsetenv("TMPDIR");
  REQUIRE(ended);
  CHECK(recording.get() == kInternal);
  CHECK(contents(output) == "the last one");
  CHECK(std::filesystem::is_empty(kept_folder));                               // no half of it there either
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 3);  // shim, output, kept
}

TEST_CASE_METHOD(RecordFixture, "a command's own exit status comes through once the profile is written") {
  auto three = start_record(with_command("exit 3"));
  REQUIRE(finished(three));
  CHECK(three.get() == 3);
  CHECK(contents(output) == "profile of gpu");
  auto killed = start_record(with_command("kill -9 $$"));
  REQUIRE(finished(killed));
  CHECK(killed.get() == 128 + SIGKILL);
}

TEST_CASE_METHOD(RecordFixture,
                 "the recorder's file is locked while the command may bring a shim, and then gone") {
  auto recording = start_record(with_command("cp $PILLION_RECORDER " + (folder / "seen").string() +
                                             " && flock -n $PILLION_RECORDER true; echo $? > " +
                                             (folder / "locked").string() + "; echo $PILLION_RECORDER > " +
                                             (folder / "name").string()));
  REQUIRE(finished(recording));
  CHECK(recording.get() == kDone);
  CHECK(contents(folder / "locked") == "1\n");  // flock(1): somebody else has it
  auto name = contents(folder / "name");
  name.pop_back();
  CHECK_FALSE(std::filesystem::exists(name));
}

TEST_CASE_METHOD(RecordFixture, "a file that cannot be written is found out before the window") {
  auto recording = start_record({"record", "-duration", "1h", "-o", folder / "absent" / "out"});
  REQUIRE(finished(recording));
  CHECK(recording.get() == kInternal);
  CHECK(script.service.requests().empty());
}

TEST_CASE_METHOD(RecordFixture,
                 "a command gets the shim and a private socket folder, and its end ends the window") {
  auto recording = start_record(with_command("echo $CUDA_INJECTION64_PATH $PILLION_SOCKET_DIR > " +
                                             (folder / "seen").string() + "; test -d $PILLION_SOCKET_DIR"));
  REQUIRE(finished(recording));
  CHECK(recording.get() == kDone);
  CHECK(contents(output) == "profile of gpu");
  const auto sockets = script.options.socket_dir;
  CHECK(contents(folder / "seen") == (folder / "libpillion.so").string() + " " + sockets + "\n");
  CHECK(sockets != "/run/pillion");
  CHECK_FALSE(std::filesystem::exists(sockets));
}

TEST_CASE_METHOD(RecordFixture, "-socket-dir is kept for a command") {
  auto recording = start_record({"record", "-socket-dir", folder, "-o", output, "--", "true"});
  REQUIRE(finished(recording));
  CHECK(script.options.socket_dir == folder);
  CHECK(std::filesystem::exists(folder));
}

TEST_CASE_METHOD(RecordFixture, "a command that ends before a shim came is 5, one that cannot start is 2") {
  script.shim_comes = false;
  auto gone = start_record(with_command("exit 3"));
  REQUIRE(finished(gone));
  CHECK(gone.get() == kTargetGone);
  auto absent = start_record({"record", "-o", output, "--", "/nowhere/program"});
  REQUIRE(finished(absent));
  CHECK(absent.get() == kUsage);
  std::filesystem::remove(folder / "libpillion.so");
  auto no_shim_file = start_record({"record", "-o", output, "--", "true"});
  REQUIRE(finished(no_shim_file));
  CHECK(no_shim_file.get() == kInternal);
}

TEST_CASE_METHOD(RecordFixture, "a signal is passed on to the command once the profile is written") {
  // The shell says when its trap is set; only then does the test signal.
  auto recording = start_record(with_command("trap 'echo termed > " + (folder / "trap").string() +
                                             "; exit 0' TERM; "
                                             "echo > " +
                                             (folder / "set").string() + "; while :; do sleep 0.05; done"));
  REQUIRE(script.service.wait_open(1));
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!std::filesystem::exists(folder / "set") && std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
  }
  ::kill(::getpid(), SIGTERM);
  REQUIRE(finished(recording));
  CHECK(recording.get() == kDone);
  CHECK(contents(output) == "profile of gpu");
  CHECK(contents(folder / "trap") == "termed\n");
}

TEST_CASE_METHOD(RecordFixture,
                 "a command starts with the signal mask from before, and SIGPIPE at its default") {
  sigset_t empty;
  ::sigemptyset(&empty);
  ::signal(SIGPIPE, SIG_IGN);
  auto workload = Workload::start(
      {"/bin/sh", "-c", "grep -E 'Sig(Blk|Ign)' /proc/self/status > " + (folder / "masks").string()}, {},
      empty, [] {});
  REQUIRE(workload);
  REQUIRE((*workload)->wait_for(std::chrono::seconds(10)));
  CHECK((*workload)->end()->text() == "exited with status 0");
  CHECK(contents(folder / "masks").find("SigBlk:\t0000000000000000") != std::string::npos);
  const auto ignored =
      contents(folder / "masks").substr(contents(folder / "masks").find("SigIgn:\t") + 8, 16);
  CHECK((std::stoull(ignored, nullptr, 16) & (1ull << (SIGPIPE - 1))) == 0);
}

TEST_CASE("how a workload ended is told in words") {
  sigset_t empty;
  ::sigemptyset(&empty);
  const auto text_of = [&](const char* shell) {
    auto workload = Workload::start({"/bin/sh", "-c", shell}, {}, empty, [] {});
    REQUIRE(workload);
    REQUIRE((*workload)->wait_for(std::chrono::seconds(10)));
    return (*workload)->end()->text();
  };
  CHECK(text_of("exit 7") == "exited with status 7");
  CHECK(text_of("kill -9 $$") == "was ended by signal 9 (KILL)");
}

}  // namespace
}  // namespace pillion::commands
