// SPDX-License-Identifier: Apache-2.0
// The half of Pipeline that tells how things stand: /status and /metrics.
#include <functional>

#include <nlohmann/json.hpp>

#include "abi/pillion_abi.h"
#include "base/clock.h"
#include "pipeline/pipeline.h"
#include "profile/anomalies.h"

namespace pillion::pipeline {
namespace {

constexpr const char* kEndings[] = {"rooted",  "fiber", "no_cfi",     "truncated_snapshot",
                                    "bad_cfa", "loop",  "no_mapping", "faulted"};

// By the names of the flags; null while it is not armed.
nlohmann::json json_of(const std::optional<CaptureSettings>& settings) {
  if (!settings) return nullptr;
  nlohmann::json json;
  for (const auto& [name, text] : settings_text(*settings)) json[name] = text;
  return json;
}

// Null until the shim has said: one of wire 1.1 or older never does.
nlohmann::json json_of(const std::optional<session::Python>& python) {
  if (!python) return nullptr;
  return {{"state", session::python_state_name(python->state)},
          {"in_force", python->state == PILLION_PYTHON_IN_FORCE},
          {"version", session::python_version_name(python->version)},
          {"text", python->text}};
}

// Null outside Kubernetes.
nlohmann::json json_of(const profile::PodIdentity& pod) {
  nlohmann::json json;
  for (const auto& [key, text] : {std::pair("name", pod.pod), std::pair("namespace", pod.name_space),
                                  std::pair("node", pod.node), std::pair("container", pod.container)}) {
    if (!text.empty()) json[key] = text;
  }
  return json;
}

nlohmann::json json_of(const AttachmentView& view) {
  return {{"target", view.target},
          {"pid", view.pid},
          {"comm", view.comm},
          {"exe", view.exe},
          {"state", view.state},
          {"has_context", view.has_context},
          {"cupti", {{"path", view.cupti_path}, {"version", view.cupti_version}}},
          {"driver_version", view.driver_version},
          {"settings", json_of(view.in_force)},
          {"python", json_of(view.python)},
          {"last_refusal", view.last_refusal},
          {"last_disarm", view.last_disarm}};
}

nlohmann::json json_of(const InjectionView& view) {
  return {{"pid", view.pid},         {"comm", view.comm},
          {"outcome", view.outcome}, {"text", view.text},
          {"socket", view.socket},   {"library", view.library},
          {"cupti", view.cupti},     {"stopped_us", view.stopped_ns / 1'000}};
}

nlohmann::json json_of(const discovery::SocketDirectoryReport& report, const std::string& path) {
  return {{"path", path},
          {"exists", report.exists},
          {"error", report.error},
          {"sockets", report.sockets},
          {"stale", report.stale},
          {"other_entries", report.other_names + report.not_sockets},
          {"over_limit", report.over_sockets_max}};
}

http::MetricsSnapshot::ByReason dropped(const pillion_counters& shim, const collect::CollectCounts& collect) {
  return {{"launch_busy", shim.launches_dropped_busy},
          {"launch_full", shim.launches_dropped_full},
          {"execution_busy", shim.executions_dropped_busy},
          {"execution_full", shim.executions_dropped_full},
          {"snapshot_busy", shim.snapshots_dropped_busy},
          {"snapshot_full", shim.snapshots_dropped_full},
          {"cupti", shim.cupti_dropped},
          {"unknown", shim.records_unknown + collect.events.unknown_records + collect.stacks.unknown_records},
          {"malformed", collect.events.malformed + collect.stacks.malformed},
          {"missing", collect.records_missing}};
}

// All kinds, so that a counter is there before it counts.
http::MetricsSnapshot::ByReason anomalies(const DrainTotals& totals) {
  const auto counts = anomaly_counts(totals);
  http::MetricsSnapshot::ByReason by_kind;
  for (const auto& kind : profile::anomaly_kinds()) by_kind[kind.kind] = kind.total(counts);
  return by_kind;
}

// What may be asked for as type=, and for what cannot be taken here the words that such a request gets.
nlohmann::json types_json(
    const std::function<std::optional<http::ServiceError>(http::ProfileType)>& not_taken) {
  nlohmann::json out = nlohmann::json::array();
  for (const auto type : http::profile_types()) {
    nlohmann::json one = {{"type", http::to_string(type)}, {"available", true}};
    if (const auto error = not_taken(type)) {
      one["available"] = false;
      one["reason"] = error->message;
    }
    out.push_back(std::move(one));
  }
  return out;
}

nlohmann::json anomalies_json(const DrainTotals& totals) {
  nlohmann::json out = nlohmann::json::array();
  for (const auto& anomaly : profile::anomalies_of(anomaly_counts(totals))) {
    out.push_back({{"kind", anomaly.kind}, {"total", anomaly.total}, {"meaning", anomaly.meaning}});
  }
  return out;
}

}  // namespace

DrainTotals Pipeline::totals() {
  const auto fresh = ask(
      drain_->loop(), [this] { return drain_->totals(); }, std::chrono::milliseconds(1'000));
  const std::lock_guard lock(totals_mutex_);
  if (fresh) last_totals_ = *fresh;
  return last_totals_;
}

nlohmann::json Pipeline::status() {
  const auto attach = report();
  nlohmann::json processes = nlohmann::json::array();
  for (const auto& view : attach.attachments) processes.push_back(json_of(view));
  nlohmann::json injections = nlohmann::json::array();
  if (injections_) {
    for (const auto& view : injections_->views()) injections.push_back(json_of(view));
  }
  const auto totals = this->totals();
  const auto unwound = unwind_->counters();
  nlohmann::json stacks;
  for (std::size_t i = 0; i < unwound.endings.size(); ++i) stacks[kEndings[i]] = unwound.endings[i];
  nlohmann::json modules = nlohmann::json::array();
  for (const auto& [target, module] : drain_->modules().all()) {
    modules.push_back({{"target", target},
                       {"module", module->module},
                       {"bytes", module->bytes.size()},
                       {"fnv1a", module->fnv1a}});
  }
  return {{"pod", json_of(pod_from_environment())},
          {"wire", {{"major", PILLION_ABI_MAJOR}, {"minor", PILLION_ABI_MINOR}}},
          {"socket_directory", json_of(attach.directory, options_.socket_dir)},
          {"finalize", options_.finalize == Finalize::automatic ? "auto" : "never"},
          {"processes", processes},
          {"injections", injections},
          {"not_attached", attach.unaccepted},
          {"connections_ended", attach.gone},
          {"refusals", attach.refusals},
          {"profile_types", types_json([this](auto type) { return not_taken(type); })},
          {"windows_taken", windows_taken_.load()},
          {"ring_bytes", attach.ring_bytes},
          {"modules", modules},
          {"anomalies", anomalies_json(totals)},
          {"totals",
           {{"launches", totals.join.launches},
            {"executions", totals.join.executions},
            {"joined", totals.join.joined},
            {"launched_before_session", totals.join.launched_before},
            {"snapshots", totals.shim.snapshots},
            {"python",
             {{"snapshots", totals.shim.python_snapshots},
              {"frames", totals.python.frames},
              {"runs", totals.python.runs},
              {"runs_unplaced", totals.python.runs_unplaced},
              {"codes", totals.shim.python_codes}}},
            {"dropped", dropped(totals.shim, totals.collect)},
            {"stacks", stacks}}}};
}

http::MetricsSnapshot Pipeline::metrics() {
  const auto attach = report();
  const auto totals = this->totals();
  const auto windows =
      ask(
          drain_->loop(), [this] { return drain_->open_windows(); }, std::chrono::milliseconds(1'000))
          .value_or(0);
  const auto modules = drain_->modules().counts();
  http::MetricsSnapshot snapshot;
  snapshot.sessions_connected = attach.attachments.size();
  for (const auto& view : attach.attachments) snapshot.sessions_armed += view.state == "armed" ? 1 : 0;
  snapshot.windows_open = windows;
  snapshot.launches_pending = totals.join.pending;
  snapshot.modules_stored = modules.modules;
  snapshot.modules_stored_bytes = modules.bytes;
  snapshot.ring_bytes = attach.ring_bytes;
  snapshot.sessions = attach.sessions;
  snapshot.sessions_refused = attach.refusals;
  for (const auto& [reason, count] : attach.gone) {
    if (reason != "closed" && reason != "stale") snapshot.sessions_refused[reason] += count;
  }
  snapshot.windows = windows_taken_.load();
  snapshot.launches = totals.join.launches;
  snapshot.snapshots = totals.shim.snapshots;
  snapshot.executions = totals.join.executions;
  snapshot.executions_joined = totals.join.joined;
  snapshot.launched_before_session = totals.join.launched_before;
  snapshot.evicted_unjoined = totals.join.evicted_unjoined;
  snapshot.records_dropped = dropped(totals.shim, totals.collect);
  snapshot.invalid_stamps = {{"zero", totals.join.invalid_zero},
                             {"reversed", totals.join.invalid_reversed},
                             {"before_launch", totals.join.invalid_before_launch},
                             {"outside_session", totals.join.invalid_outside_session}};
  const auto unwound = unwind_->counters();
  for (std::size_t i = 0; i < unwound.endings.size(); ++i) snapshot.stacks[kEndings[i]] = unwound.endings[i];
  snapshot.unwind_rows_cached = unwound.rows_computed - unwound.rows_evicted;
  snapshot.modules_evicted = modules.evicted;
  snapshot.clock_steps = totals.clock_steps;
  snapshot.anomalies = anomalies(totals);
  snapshot.gpu_seconds = static_cast<double>(totals.gpu_ns) * 1e-9;
  snapshot.shim_seconds = static_cast<double>(totals.shim.handler_ns) * 1e-9;
  return snapshot;
}

}  // namespace pillion::pipeline
