// SPDX-License-Identifier: Apache-2.0
#include "http/metrics.h"

#include <vector>

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

namespace pillion::http {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

class Families {
 public:
  void gauge(const char* name, const char* help, double value) { one(name, help, MetricType::Gauge, value); }
  void counter(const char* name, const char* help, double value) {
    one(name, help, MetricType::Counter, value);
  }
  void counters(const char* name, const char* help, const char* label,
                const MetricsSnapshot::ByReason& values) {
    auto& family = start(name, help, MetricType::Counter);
    for (const auto& [reason, count] : values) {
      add(family, {{label, reason}}, static_cast<double>(count));
    }
  }
  void requests(const ServerCounters& server) {
    auto& family = start("pillion_http_requests_total", "HTTP requests answered, by path and status",
                         MetricType::Counter);
    for (const auto& [key, count] : server.requests) {
      add(family, {{"path", key.first}, {"status", std::to_string(key.second)}}, static_cast<double>(count));
    }
  }

  [[nodiscard]] std::string text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  MetricFamily& start(const char* name, const char* help, MetricType type) {
    return families_.emplace_back(MetricFamily{name, help, type, {}});
  }
  void one(const char* name, const char* help, MetricType type, double value) {
    add(start(name, help, type), {}, value);
  }
  static void add(MetricFamily& family, std::vector<ClientMetric::Label> labels, double value) {
    auto& metric = family.metric.emplace_back();
    metric.label = std::move(labels);
    if (family.type == MetricType::Gauge) {
      metric.gauge.value = value;
    } else {
      metric.counter.value = value;
    }
  }

  std::vector<MetricFamily> families_;
};

double as_double(std::uint64_t value) { return static_cast<double>(value); }

void add_state(Families& families, const MetricsSnapshot& now) {
  families.gauge("pillion_sessions_connected", "Shims connected", as_double(now.sessions_connected));
  families.gauge("pillion_sessions_armed", "Shims recording", as_double(now.sessions_armed));
  families.gauge("pillion_windows_open", "Profile windows open", as_double(now.windows_open));
  families.gauge("pillion_launches_pending", "Launches whose execution has not come yet",
                 as_double(now.launches_pending));
  families.gauge("pillion_modules_stored", "GPU modules held", as_double(now.modules_stored));
  families.gauge("pillion_modules_stored_bytes", "Size of the GPU modules held",
                 as_double(now.modules_stored_bytes));
  families.gauge("pillion_ring_bytes", "Shared memory of all rings", as_double(now.ring_bytes));
  families.gauge("pillion_unwind_rows_cached", "Unwind rows in the cache", as_double(now.unwind_rows_cached));
}

void add_totals(Families& families, const MetricsSnapshot& now) {
  families.counter("pillion_sessions_total", "Sessions with shims", as_double(now.sessions));
  families.counters("pillion_sessions_refused_total", "Sessions that could not be had, by reason", "reason",
                    now.sessions_refused);
  families.counter("pillion_windows_total", "Profile windows closed", as_double(now.windows));
  families.counter("pillion_launches_total", "Launches seen", as_double(now.launches));
  families.counter("pillion_snapshots_total", "Stack snapshots taken", as_double(now.snapshots));
  families.counter("pillion_executions_total", "Kernels, copies and memsets seen", as_double(now.executions));
  families.counter("pillion_executions_joined_total", "Executions joined with their launch",
                   as_double(now.executions_joined));
  families.counter("pillion_launched_before_session_total", "Executions launched before the session began",
                   as_double(now.launched_before_session));
  families.counter("pillion_evicted_unjoined_total", "Launches evicted before their execution came",
                   as_double(now.evicted_unjoined));
  families.counters("pillion_records_dropped_total", "Records lost, by reason", "reason",
                    now.records_dropped);
  families.counters("pillion_invalid_stamps_total", "Executions whose times were left out, by kind", "kind",
                    now.invalid_stamps);
  families.counters("pillion_stacks_total", "Stacks unwound, by how they ended", "ending", now.stacks);
  families.counters("pillion_anomalies_total", "What went wrong, by kind; /status says what each means",
                    "kind", now.anomalies);
  families.counter("pillion_modules_evicted_total", "GPU modules evicted from the store",
                   as_double(now.modules_evicted));
  families.counter("pillion_clock_steps_total", "Clock steps seen", as_double(now.clock_steps));
  families.counter("pillion_gpu_seconds_total", "Time of all executions", now.gpu_seconds);
  families.counter("pillion_shim_seconds_total", "Time that the shims took on launching threads",
                   now.shim_seconds);
}

}  // namespace

std::string metrics_text(const MetricsSnapshot& snapshot, const ServerCounters& server) {
  Families families;
  add_state(families, snapshot);
  add_totals(families, snapshot);
  families.requests(server);
  families.gauge("pillion_http_windows_running", "Requests whose window or answer is under way",
                 as_double(server.windows_running));
  families.counter("pillion_http_hang_ups_total", "Windows ended by a client that went away",
                   as_double(server.hang_ups));
  return families.text();
}

}  // namespace pillion::http
