// SPDX-License-Identifier: Apache-2.0
// GET_FILE and FILE, on the loop and from another thread.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <thread>

#include <catch2/catch_test_macros.hpp>

#include "fake_shim.h"

using namespace std::chrono_literals;
using namespace pillion;
using namespace pillion::session;

namespace {

UniqueFd this_program() { return UniqueFd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)); }

pillion_file answer_to(const pillion_get_file& request) {
  auto answer = make_message<pillion_file>(PILLION_FILE);
  answer.request = request.request;
  return answer;
}

// Runs the loop of a pair on a thread of its own, as the sidecar does.
class LoopThread {
 public:
  explicit LoopThread(EventLoop& loop) : loop_(loop), thread_([&loop] { loop.run(); }) {}
  ~LoopThread() {
    loop_.stop();
    thread_.join();
  }

 private:
  EventLoop& loop_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("a file comes as a readable fd") {
  Pair pair;
  pair.greet();
  std::vector<Result<ReceivedFile>> answers;
  pair.session->get_file(0x7f00, 5s,
                         [&](Result<ReceivedFile> answer) { answers.push_back(std::move(answer)); });
  const auto request = pair.shim.receive(PILLION_GET_FILE).as<pillion_get_file>();
  CHECK(request.start == 0x7f00);
  const UniqueFd file = this_program();
  auto answer = answer_to(request);
  answer.flags = PILLION_FILE_OTHER_INODE;
  pair.shim.send(answer, std::array{file.get()});
  pair.run_until([&] { return !answers.empty(); });
  REQUIRE(answers[0].has_value());
  CHECK(answers[0]->other_inode);
  std::array<char, 4> magic{};
  CHECK(::pread(answers[0]->fd.get(), magic.data(), 4, 0) == 4);
  CHECK(std::string(magic.data() + 1, 3) == "ELF");
  CHECK(pair.session->counters().surplus_fds == 0);
}

TEST_CASE("answers that are no file") {
  Pair pair;
  pair.greet();
  std::vector<Result<ReceivedFile>> answers;
  pair.session->get_file(1, 5s, [&](Result<ReceivedFile> answer) { answers.push_back(std::move(answer)); });
  auto answer = answer_to(pair.shim.receive(PILLION_GET_FILE).as<pillion_get_file>());
  std::array<int, 2> pipe{};
  REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
  const UniqueFd read(pipe[0]);
  const UniqueFd write(pipe[1]);
  int number = 0;
  SECTION("an errno") {
    answer.error = EACCES;
    number = EACCES;
    pair.shim.send(answer);
  }
  SECTION("an errno with an fd all the same") {
    answer.error = EACCES;
    number = EACCES;
    pair.shim.send(answer, std::array{read.get()});
  }
  SECTION("nothing") { pair.shim.send(answer); }
  SECTION("a pipe") { pair.shim.send(answer, std::array{read.get()}); }
  SECTION("a device") {
    const UniqueFd device(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
    pair.shim.send(answer, std::array{device.get()});
  }
  SECTION("a directory") {
    const UniqueFd directory(::open("/", O_RDONLY | O_CLOEXEC));
    pair.shim.send(answer, std::array{directory.get()});
  }
  SECTION("a name only") {
    const UniqueFd place(::open("/proc/self/exe", O_PATH | O_CLOEXEC));
    pair.shim.send(answer, std::array{place.get()});
  }
  pair.run_until([&] { return !answers.empty(); });
  REQUIRE_FALSE(answers[0].has_value());
  CHECK(answers[0].error().number == number);
}

TEST_CASE("surplus fds beside a file are closed and counted") {
  Pair pair;
  pair.greet();
  bool got = false;
  pair.session->get_file(1, 5s, [&](const Result<ReceivedFile>& answer) { got = answer.has_value(); });
  const auto request = pair.shim.receive(PILLION_GET_FILE).as<pillion_get_file>();
  const UniqueFd file = this_program();
  pair.shim.send(answer_to(request), std::array{file.get(), file.get(), file.get()});
  pair.run_until([&] { return got; });
  CHECK(pair.session->counters().surplus_fds == 2);
}

TEST_CASE("a file nobody asked for is closed") {
  Pair pair;
  pair.greet();
  const UniqueFd file = this_program();
  pillion_get_file request{};
  request.request = 99;
  pair.shim.send(answer_to(request), std::array{file.get()});
  pair.run_until([&] { return pair.session->counters().unexpected_messages == 1; });
}

TEST_CASE("requests past the limit are refused on the spot") {
  Pair pair;
  pair.greet();
  std::size_t failed = 0;
  for (std::size_t i = 0; i < Session::kFilesMax + 10; ++i) {
    pair.session->get_file(i, 60s, [&](const Result<ReceivedFile>& answer) { failed += answer ? 0 : 1; });
  }
  CHECK(failed == 10);
  pair.shim.close();
  (void)pair.run_until_gone();
  CHECK(failed == Session::kFilesMax + 10);
}

TEST_CASE("another thread waits for its file") {
  Pair pair;
  pair.greet();
  const auto channel = pair.session->file_channel();
  CHECK(channel.use_count() >= 2);
  {
    const LoopThread runner(*pair.loop);
    Result<ReceivedFile> answer = fail("", "", "");
    std::thread waiter([&] { answer = channel->get(0x1000, 10s); });
    const auto request = pair.shim.receive(PILLION_GET_FILE).as<pillion_get_file>();
    const UniqueFd file = this_program();
    pair.shim.send(answer_to(request), std::array{file.get()});
    waiter.join();
    CHECK(answer.has_value());
    CHECK_FALSE(channel->get(0x1000, 20ms).has_value());  // no answer to this one
  }
  CHECK_FALSE(channel->get(0x1000, 20ms).has_value());  // the loop has ended
}

TEST_CASE("a waiting thread is let go when the process dies, and later calls fail") {
  Pair pair;
  pair.greet();
  const auto channel = pair.session->file_channel();
  std::atomic<bool> destroyed{false};
  pair.told.when_gone = [&] {
    pair.session.reset();
    destroyed = true;
  };
  const LoopThread runner(*pair.loop);
  Result<ReceivedFile> answer = fail("", "", "");
  std::thread waiter([&] { answer = channel->get(0x1000, 60s); });
  (void)pair.shim.receive(PILLION_GET_FILE);
  pair.shim.close();
  waiter.join();
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().detail == "session ended");
  CHECK_FALSE(channel->get(0x1000, 10s).has_value());
  CHECK(destroyed);
}

TEST_CASE("the loop's own thread must not wait for itself") {
  Pair pair;
  pair.greet();
  const auto channel = pair.session->file_channel();
  std::string detail;
  pair.loop->after(0ms, [&] {
    detail = channel->get(1, 60s).error().detail;
    pair.loop->stop();
  });
  pair.loop->run();
  CHECK(detail == "would wait for its own thread");
}
