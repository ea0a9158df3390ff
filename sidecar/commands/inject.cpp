// SPDX-License-Identifier: Apache-2.0
#include "inject/injector.h"

#include <cstdio>

#include "commands/commands.h"
#include "commands/injection_settings.h"

namespace pillion::commands {
namespace {

int refuse(const inject::Refusal& refusal) {
  std::fprintf(stderr, "pillion: %s\n", refusal.message().c_str());
  switch (refusal.kind) {
    case inject::RefusalReason::no_process:
      return kTargetGone;
    case inject::RefusalReason::failed:
      return kInternal;
    default:
      return kRefused;
  }
}

int report_resident(const inject::Examination& found) {
  std::printf("process %u (%s) has the shim already: nothing was done\n", found.pid, found.comm.c_str());
  std::printf("loaded from %s, %s\n", found.resident->path.c_str(),
              found.resident->socket.empty() ? "without a socket: it cannot be reached"
                                             : ("socket " + found.resident->socket).c_str());
  return kDone;
}

int report_outcome(const inject::InjectionOutcome& outcome, const inject::Examination& found) {
  switch (outcome.status) {
    case inject::InjectionStatus::injected:
      break;
    case inject::InjectionStatus::already_there:
      std::printf("%s\n", outcome.text.c_str());
      return kDone;
    case inject::InjectionStatus::in_progress:
      std::fprintf(stderr, "pillion: %s\n", outcome.text.c_str());
      return kRefused;
    case inject::InjectionStatus::target_gone:
      std::fprintf(stderr, "pillion: %s\n", outcome.text.c_str());
      return kTargetGone;
    case inject::InjectionStatus::failed:
      std::fprintf(stderr, "pillion: %s\n", outcome.text.c_str());
      return kInternal;
  }
  const bool in_memory = outcome.library.starts_with("/proc/");
  const std::string way = in_memory ? "in memory, as " + outcome.library
                                    : "through the file " + outcome.library +
                                          ", which is removed again (it may make no memory file)";
  std::printf("process %u (%s) has the shim, given to it %s; thread %u stood still for %.2f ms\n", found.pid,
              found.comm.c_str(), way.c_str(), outcome.tid, static_cast<double>(outcome.stopped_ns) / 1e6);
  std::printf("it listens at %s, and will use %s\n", outcome.socket.c_str(),
              outcome.cupti.empty() ? "the CUPTI of its library path" : outcome.cupti.c_str());
  return kDone;
}

}  // namespace

int inject(const Options& options, const std::filesystem::path& from) {
  auto settings = injection_settings(from);
  if (!settings) {
    std::fprintf(stderr, "pillion: %s\n", settings.error().message().c_str());
    return kInternal;
  }
  const auto found = inject::examine(*options.pid, {.force = options.force});
  if (!found) return refuse(found.error());
  if (found->resident) return report_resident(*found);
  settings->socket_directory = options.socket_dir;
  settings->allow_uids = options.shim_allow_uids;
  settings->log_path = options.shim_log;
  return report_outcome(inject::inject(*found, *settings), *found);
}

}  // namespace pillion::commands
