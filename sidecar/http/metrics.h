// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "http/metrics_snapshot.h"

namespace pillion::http {

// What the HTTP server counts about itself.
struct ServerCounters {
  std::map<std::pair<std::string, int>, std::uint64_t> requests;  // by (known path or "other", status)
  std::uint64_t windows_running = 0;
  std::uint64_t hang_ups = 0;  // windows that ended because the client went away
};

// Prometheus text format 0.0.4. Names follow the Prometheus conventions: base units, `_total` on counters.
[[nodiscard]] std::string metrics_text(const MetricsSnapshot& snapshot, const ServerCounters& server);

}  // namespace pillion::http
