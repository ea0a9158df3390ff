// SPDX-License-Identifier: Apache-2.0
#include "profile/sample_labels.h"

#include <cstdio>

#include "profile/stack_builder.h"

namespace pillion::profile {

std::string uuid_text(const RawDevice& device) {
  std::string out = device.mig ? "MIG" : "GPU";
  for (std::size_t i = 0; i < device.uuid.size(); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    char hex[3];
    std::snprintf(hex, sizeof(hex), "%02x", device.uuid[i]);
    out += hex;
  }
  return out;
}

const char* attribution_name(Attribution attribution) {
  switch (attribution) {
    case Attribution::exact:
      return "exact";
    case Attribution::context:
      return "context";
    case Attribution::unsampled:
      return "unsampled";
    case Attribution::before_session:
      return "before-session";
    case Attribution::launch_lost:
      return "launch-lost";
    case Attribution::other:
      return "merged";
  }
  return "unknown";
}

void SampleLabels::text(Sample& out, std::string_view key, std::string_view text) {
  if (!text.empty()) out.labels.push_back({texts_.id(key), texts_.id(text), 0, 0});
}

void SampleLabels::number(Sample& out, std::string_view key, std::int64_t number) {
  out.labels.push_back({texts_.id(key), 0, number, texts_.id("id")});
}

void SampleLabels::process(Sample& out, const TargetInput& target) {
  text(out, "process", target.comm);
  number(out, "pid", target.pid);
  text(out, "pod", target.pod.pod);
  text(out, "namespace", target.pod.name_space);
  text(out, "node", target.pod.node);
  text(out, "container", target.pod.container);
}

void SampleLabels::device(Sample& out, const TargetInput& target, std::uint32_t device) {
  number(out, "device", device);
  const auto known = target.data->devices.find(device);
  if (known == target.data->devices.end()) return;
  text(out, "gpu_uuid", uuid_text(known->second));
  if (known->second.mig) text(out, "mig", "yes");
}

void SampleLabels::launch(Sample& out, const TargetInput& target, const JoinedSample& sample) {
  number(out, "context", sample.context);
  number(out, "stream", sample.stream);
  thread(out, target, sample.tid);
  if (sample.graph) text(out, "graph", "yes");
  found(out, target, sample);
}

void SampleLabels::thread(Sample& out, const TargetInput& target, std::uint32_t tid) {
  if (tid == 0) return;
  number(out, "thread", tid);
  const auto comm = target.data->threads.find(tid);
  if (comm != target.data->threads.end()) text(out, "thread_name", comm->second);
}

void SampleLabels::found(Sample& out, const TargetInput& target, const JoinedSample& sample) {
  text(out, "attribution", attribution_name(sample.attribution));
  const bool has_stack =
      sample.attribution == Attribution::exact || sample.attribution == Attribution::context;
  if (has_stack && target.stacks != nullptr && sample.stack != 0) {
    const StackEnding ending = target.stacks->ending(sample.stack);
    if (ending != StackEnding::rooted) text(out, "stack_ending", ending_name(ending));
  }
}

}  // namespace pillion::profile
