// SPDX-License-Identifier: Apache-2.0
#include "adverse.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// Does to itself what it is told: for each line on stdin a number of launches, as `stepped`, or the name of
// an action, perhaps with an argument, which it answers with "ok" or "failed: WHY". --before names actions,
// separated by commas, that come before cuInit.
namespace adverse {

std::atomic<std::uint64_t> interrupted{0};

namespace {

workload::Device* the_device;
CUstream handler_stream;
std::atomic<std::uint64_t> launched{0};

bool run(const std::string& line) {
  const std::size_t blank = line.find(' ');
  const std::string name = line.substr(0, blank);
  const std::string argument = blank == std::string::npos ? "" : line.substr(blank + 1);
  for (const auto& actions : {signal_actions(), limit_actions(), descriptor_actions(), identity_actions(),
                              filter_actions(), thread_actions(), child_actions(), exit_actions()}) {
    for (const Action& action : actions) {
      if (name == action.name) return action.run(argument);
    }
  }
  errno = ENOSYS;
  return false;
}

void run_before(const std::string& list) {
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    const std::string line = list.substr(at, end - at);
    if (!run(line)) {
      std::printf("failed: %s: %s\n", line.c_str(), std::strerror(errno));
      std::exit(3);
    }
    at = end + 1;
  }
}

void say(const char* text) {
  const std::string line = std::string(text) + "\n";
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t written = ::write(1, line.data() + at, line.size() - at);
    if (written < 0 && errno == EINTR) {
      ++interrupted;
      continue;
    }
    if (written <= 0) std::_Exit(4);
    at += static_cast<std::size_t>(written);
  }
}

// Byte by byte: what is read must not depend on how much came at once. False at the end of the input.
bool read_line(std::string* line) {
  line->clear();
  for (;;) {
    char c = 0;
    const ssize_t got = ::read(0, &c, 1);
    if (got < 0 && errno == EINTR && !workload::stop_requested()) {
      ++interrupted;
      continue;
    }
    if (got <= 0) return false;
    if (c == '\n') return true;
    *line += c;
  }
}

}  // namespace

workload::Device& device() { return *the_device; }

void launch(std::uint64_t count) {
  the_device->make_current();
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (; count > 0; --count) CHECK(the_device->launch(launched++, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuStreamDestroy_v2(stream));
}

void launch_in_handler() {
  CHECK(the_device->launch(0, handler_stream));
  ++launched;
}

std::uint64_t launches() { return launched; }

}  // namespace adverse

int main(int argc, char** argv) {
  const workload::Options options = workload::parse_options(argc, argv);
  adverse::run_before(options.before);
  workload::Device device;
  adverse::the_device = &device;
  CHECK(cuStreamCreate(&adverse::handler_stream, CU_STREAM_NON_BLOCKING));
  const std::uint64_t begin = workload::now_ns();
  adverse::say("ready");
  std::string line;
  while (!workload::stop_requested() && adverse::read_line(&line)) {
    if (line.empty() || (line[0] >= '0' && line[0] <= '9')) {
      adverse::launch(std::strtoull(line.c_str(), nullptr, 10));
      adverse::say(std::to_string(adverse::launches()).c_str());
    } else if (adverse::run(line)) {
      adverse::say("ok");
    } else {
      adverse::say(("failed: " + std::string(std::strerror(errno))).c_str());
    }
  }
  CHECK(cuCtxSynchronize());
  workload::print_truth(
      "adverse", adverse::launches(), workload::seconds_since(begin), device.counts(),
      ",\"signals\":" + std::to_string(adverse::signals_counted()) +
          ",\"timer_signals\":" + std::to_string(adverse::timer_signals()) +
          ",\"faults\":" + std::to_string(adverse::faults_handled()) +
          ",\"interrupted\":" + std::to_string(adverse::interrupted) +
          ",\"reused_intact\":" + (adverse::reused_descriptors_intact() ? "true" : "false"));
}
