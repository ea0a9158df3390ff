// SPDX-License-Identifier: Apache-2.0
#include "export/json.h"

#include <nlohmann/json.hpp>

namespace pillion::exporting {
namespace {

using Json = nlohmann::ordered_json;

Json values(const profile::Profile& profile, const std::array<std::int64_t, profile::kValues>& of) {
  Json out = Json::object();
  for (std::size_t i = 0; i < profile.value_types.size(); ++i) out[profile.value_types[i].key] = of[i];
  return out;
}

Json processes(const profile::Profile& profile) {
  Json out = Json::array();
  for (const profile::Process& process : profile.processes) {
    Json one = {
        {"pid", process.pid}, {"comm", process.comm}, {"exe", process.exe}, {"targets", process.targets}};
    for (const auto& [key, text] :
         {std::pair("pod", process.pod.pod), std::pair("namespace", process.pod.name_space),
          std::pair("node", process.pod.node), std::pair("container", process.pod.container)}) {
      if (!text.empty()) one[key] = text;
    }
    out.push_back(std::move(one));
  }
  return out;
}

Json devices(const profile::Profile& profile) {
  Json out = Json::array();
  for (const profile::Device& device : profile.devices) {
    out.push_back({{"pid", device.pid},
                   {"device", device.device},
                   {"uuid", device.uuid},
                   {"name", device.name},
                   {"compute_capability",
                    std::to_string(device.compute_major) + "." + std::to_string(device.compute_minor)},
                   {"multiprocessors", device.multiprocessors},
                   {"mig", device.mig}});
  }
  return out;
}

Json device_idle(const profile::Profile& profile) {
  Json out = Json::array();
  for (const profile::DeviceIdle& device : profile.device_idle) {
    Json users = Json::array();
    for (const auto& user : device.users) users.push_back({{"pid", user.pid}, {"device", user.device}});
    Json by_cause = Json::object();
    for (std::size_t i = 0; i < kIdleCauses; ++i) by_cause[kIdleCauseNames[i]] = device.by_cause[i];
    Json one = {{"users", std::move(users)}};
    if (!device.uuid.empty()) one["uuid"] = device.uuid;
    one.update({{"window_ns", device.window_ns},
                {"busy_ns", device.busy_ns},
                {"busy_share", device.busy_share},
                {"kernel_concurrency", device.kernel_concurrency},
                {"idle_ns", device.idle_ns},
                {"idle_by_cause_ns", std::move(by_cause)}});
    out.push_back(std::move(one));
  }
  return out;
}

Json anomalies(const profile::Profile& profile) {
  Json out = Json::array();
  for (const profile::Anomaly& anomaly : profile.anomalies) {
    Json one = {{"kind", anomaly.kind}, {"total", anomaly.total}, {"meaning", anomaly.meaning}};
    if (!anomaly.detail.empty()) one["detail"] = anomaly.detail;
    out.push_back(std::move(one));
  }
  return out;
}

Json quality(const profile::Profile& profile) {
  Json out = Json::object();
  for (const profile::QualityEntry& entry : profile.quality) {
    std::visit([&](const auto& value) { out[entry.name] = value; }, entry.value);
  }
  out["anomalies"] = anomalies(profile);
  return out;
}

Json settings(const profile::Profile& profile) {
  Json out = Json::array();
  for (const profile::Settings& one : profile.settings) {
    const CaptureSettings& is = one.in_force;
    out.push_back({{"pid", one.pid},
                   {"target", one.target},
                   {"kinds", kinds_text(is.kinds)},
                   {"sample_budget_percent", is.sample_permyriad / 100.0},
                   {"sample_mib_per_s", is.sample_mib_per_s},
                   {"stack_bytes", is.stack_bytes_max},
                   {"events_rings", is.events_rings},
                   {"events_ring_bytes", is.events_ring_bytes},
                   {"stacks_rings", is.stacks_rings},
                   {"stacks_ring_bytes", is.stacks_ring_bytes},
                   {"lease_ms", is.lease_ms},
                   {"finalize", is.finalize ? "auto" : "never"}});
  }
  return out;
}

Json kernels(const profile::Profile& profile) {
  Json out = Json::array();
  for (const profile::Kernel& kernel : profile.kernels) {
    Json one = {{"name", profile.text(kernel.name)}, {"system_name", profile.text(kernel.system_name)}};
    one.update(values(profile, kernel.values));
    out.push_back(std::move(one));
  }
  return out;
}

// Powers of two that occur; the last one there can be stands for all above it.
Json histogram(const LatencyHistogram& latency) {
  Json out = Json::array();
  const auto counts = latency.by_power_of_two();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 0)
      out.push_back({{"from_ns", i == 0 ? 0 : std::uint64_t{1} << i}, {"count", counts[i]}});
  }
  return out;
}

Json latency(const LatencyHistogram& of) {
  return {{"count", of.count()},         {"sum_ns", of.sum_ns()},       {"min_ns", of.min_ns()},
          {"max_ns", of.max_ns()},       {"p50_ns", of.percentile(50)}, {"p90_ns", of.percentile(90)},
          {"p99_ns", of.percentile(99)}, {"histogram", histogram(of)}};
}

Json latencies(const profile::Profile& profile) {
  Json out = Json::array();
  for (const profile::Latency& row : profile.latencies) {
    Json one = {
        {"name", profile.text(row.name)}, {"system_name", profile.text(row.system_name)}, {"pid", row.pid}};
    if (!row.merged) one.update({{"device", row.device}, {"context", row.context}, {"stream", row.stream}});
    one["queue"] = latency(row.queue);
    one["launch_call"] = latency(row.call);
    out.push_back(std::move(one));
  }
  return out;
}

Json mappings(const profile::Profile& profile) {
  Json out = Json::array();
  for (const profile::Mapping& mapping : profile.mappings) {
    out.push_back({{"file", profile.text(mapping.file)}, {"build_id", profile.text(mapping.build_id)}});
  }
  return out;
}

// One object per location; its functions innermost first.
Json frames(const profile::Profile& profile) {
  Json out = Json::array();
  for (const profile::Location& location : profile.locations) {
    Json lines = Json::array();
    for (const profile::Line& line : location.lines) {
      const profile::Function& function = profile.functions[line.function - 1];
      Json one = {{"function", profile.text(function.name)}};
      if (function.system_name != function.name) one["system_name"] = profile.text(function.system_name);
      if (function.file != 0) one["file"] = profile.text(function.file);
      if (line.line != 0) one["line"] = line.line;
      lines.push_back(std::move(one));
    }
    Json one = {{"lines", std::move(lines)}};
    if (location.python) one["python"] = true;
    if (location.mapping != 0) one["mapping"] = location.mapping - 1;
    if (location.address != 0) one["address"] = location.address;
    out.push_back(std::move(one));
  }
  return out;
}

Json stacks(const profile::Profile& profile) {
  Json out = Json::array();
  for (const profile::Sample& sample : profile.samples) {
    Json indices = Json::array();
    for (const std::uint32_t id : sample.locations) indices.push_back(id - 1);
    Json labels = Json::object();
    for (const profile::Label& label : sample.labels) {
      Json& at = labels[profile.text(label.key)];
      if (label.unit == 0) {
        at = profile.text(label.text);
      } else {
        at = label.number;
      }
    }
    Json one = {{"frames", std::move(indices)}, {"labels", std::move(labels)}};
    one.update(values(profile, sample.values));
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

std::string to_json(const profile::Profile& profile) {
  Json out = {{"schema", "pillion-profile-1"},
              {"type", profile.type},
              {"window",
               {{"start_unix_ns", profile.start_wall_ns},
                {"start_monotonic_ns", profile.t0_ns},
                {"duration_ns", profile.t1_ns - profile.t0_ns}}},
              {"processes", processes(profile)},
              {"devices", devices(profile)},
              {"settings", settings(profile)},
              {"quality", quality(profile)},
              {"kernels", kernels(profile)},
              {"latencies", latencies(profile)},
              {"mappings", mappings(profile)},
              {"frames", frames(profile)},
              {"stacks", stacks(profile)}};
  if (!profile.device_idle.empty()) out["device_idle"] = device_idle(profile);
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace pillion::exporting
