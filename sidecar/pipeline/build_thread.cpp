// SPDX-License-Identifier: Apache-2.0
#include "pipeline/build_thread.h"

#include <cstdlib>
#include <future>
#include <utility>

#include "export/folded.h"
#include "export/json.h"
#include "export/pprof.h"
#include "pipeline/code_names.h"
#include "profile/builder.h"
#include "profile/idle_builder.h"
#include "profile/sync_builder.h"
#include "profile/why_empty.h"

namespace pillion::pipeline {
namespace {

constexpr std::size_t kQueuedMax = 64;  // windows

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

profile::BuildInput input_of(const BuildRequest& request, const profile::PodIdentity& pod) {
  profile::BuildInput input;
  input.start_wall_ns = request.start_wall_ns;
  input.t0_ns = request.t0_ns;
  input.t1_ns = request.t1_ns;
  for (const auto& part : request.parts) {
    profile::TargetInput target;
    target.id = part.target;
    target.session = part.session;
    target.pid = part.pid;
    target.comm = part.comm;
    target.exe = part.exe;
    target.pod = pod;
    target.data = &part.data;
    target.stacks = part.stacks.get();
    target.quality = part.quality;
    input.targets.push_back(std::move(target));
  }
  for (const auto& refused : request.refused) {
    if (refused.reason == PILLION_REFUSAL_SUBSCRIBER_HELD) ++input.quality.subscriber_conflicts;
    input.anomalies.push_back({"refused", 1, "a process could not be recorded",
                               session::refusal_name(refused.reason) + ": " + refused.text});
  }
  for (const auto& residue : request.residues) {
    input.anomalies.push_back(
        {"detach_residue", 1, "an earlier detach left CUPTI behind in a process", residue});
  }
  if (request.cut_short) {
    input.anomalies.push_back({"window_cut_short", 1, "the window was ended before its time", {}});
  }
  input.quality.clock_steps = request.clock_steps;
  input.quality.windows_unsettled = request.unsettled ? 1 : 0;
  input.quality.targets_skipped = request.skipped;
  return input;
}

Result<std::string> write(const profile::Profile& profile, http::ProfileFormat format) {
  switch (format) {
    case http::ProfileFormat::pprof:
      return exporting::to_pprof(profile);
    case http::ProfileFormat::json:
      return exporting::to_json(profile);
    case http::ProfileFormat::folded:
      return exporting::to_folded(profile);
  }
  return fail("build profile", "", "unknown format");
}

}  // namespace

profile::PodIdentity pod_from_environment() {
  return {environment("POD_NAME"), environment("POD_NAMESPACE"), environment("NODE_NAME"),
          environment("CONTAINER_NAME")};
}

BuildThread::BuildThread(TargetCode& code, FileTable& files, profile::PodIdentity pod)
    : code_(code), files_(files), pod_(std::move(pod)), symbolizer_(files), queue_(kQueuedMax) {}

void BuildThread::start() {
  thread_ = std::thread([this] {
    while (auto work = queue_.pop()) (*work)();
  });
}

void BuildThread::stop() {
  queue_.close();
  if (thread_.joinable()) thread_.join();
}

Result<Rendered> BuildThread::render(BuildRequest request) {
  // std::function wants what can be copied; the request cannot.
  auto held = std::make_shared<BuildRequest>(std::move(request));
  auto done = std::make_shared<std::promise<Result<Rendered>>>();
  auto rendered = done->get_future();
  if (!queue_.try_push([this, held, done] { done->set_value(build(std::move(*held))); })) {
    return fail("build profile", "", "too many windows wait to be built, or pillion is ending");
  }
  return rendered.get();
}

Result<Rendered> BuildThread::build(BuildRequest request) {
  CodeNames names(code_, files_, symbolizer_);
  for (const auto& part : request.parts) names.add(part.session, part.codes);
  const auto input = input_of(request, pod_);
  const auto build_type = [&] {
    if (request.idle) return profile::build_idle(input, *request.idle, names);
    return request.type == http::ProfileType::sync ? profile::build_sync(input, names)
                                                   : profile::build(input, names);
  };
  const auto profile = build_type();
  auto body = write(profile, request.format);
  if (!body) return tl::make_unexpected(body.error());
  const bool empty = request.format == http::ProfileFormat::folded ? body->empty() : profile.samples.empty();
  return Rendered{std::move(*body), empty ? profile::why_empty(input, profile) : std::string()};
}

}  // namespace pillion::pipeline
