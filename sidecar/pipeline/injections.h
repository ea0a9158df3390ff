// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "discovery/shim_address.h"
#include "inject/examination.h"
#include "inject/injector.h"

namespace pillion::pipeline {

struct InjectionsConfig {
  std::optional<std::uint32_t> pid;  // this process, or each that uses CUDA and has no shim
  inject::InjectionSettings settings;
};

// What was done about one process; for /status and for people.
struct InjectionView {
  std::uint32_t pid = 0;
  std::string comm;
  std::string outcome;  // "injected", "already there", "refused", "failed", ...
  std::string text;
  std::string socket;
  std::string library;
  std::string cupti;
  std::uint64_t stopped_ns = 0;
};

// Why the shim will not come into a process any more.
struct GivenUp {
  bool refused = true;  // otherwise the injection was begun, and failed
  std::string text;     // for people: reason and remedy
};

// Brings the shim into processes that were started without it, each once (a program that was exec'd since
// counts anew). One thread of its own, because an injection waits for its target.
class Injections {
 public:
  // `found` is called on that thread with every shim that listens now, and the uid of its process.
  using Found = std::function<void(const discovery::ShimAddress&, std::uint32_t uid)>;

  Injections(InjectionsConfig config, Found found) : config_(std::move(config)), found_(std::move(found)) {}

  void start();
  void stop();  // waits for an injection that is under way

  [[nodiscard]] std::vector<InjectionView> views() const;  // any thread; the oldest are forgotten past 256

  // Of the process that the configuration names; any thread. Nothing while a shim may still come: the process
  // is yet to be looked at, the injection has worked or is under way, its driver will load the shim, or what
  // is in the way may pass by itself. A tracer does not count as that: who knows how long it stays?
  [[nodiscard]] std::optional<GivenUp> given_up() const;

 private:
  // What tells a program from the next one that its process runs.
  struct Program {
    std::uint32_t pid = 0;
    std::uint64_t start_time = 0;
    std::string exe;
    auto operator<=>(const Program&) const = default;
  };

  void run(std::stop_token stop);
  void look();
  void consider(std::uint32_t pid);
  void inject_into(const inject::Examination& found, InjectionView& view);
  void tell(const inject::Examination& found, const std::string& socket);
  void keep(const Program& program, InjectionView view, bool final);
  void note_end(std::optional<GivenUp> end);

  const InjectionsConfig config_;
  const Found found_;
  std::map<Program, bool> done_;  // the thread's; false: to be tried again
  mutable std::mutex mutex_;
  std::map<Program, InjectionView> views_;  // under mutex_
  std::optional<GivenUp> given_up_;         // under mutex_
  std::jthread thread_;
};

}  // namespace pillion::pipeline
