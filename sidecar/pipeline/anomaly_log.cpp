// SPDX-License-Identifier: Apache-2.0
#include "pipeline/anomaly_log.h"

#include <utility>

#include "base/log.h"

namespace pillion::pipeline {
namespace {

std::string line_of(const profile::AnomalyKind& kind, std::uint64_t total) {
  return std::string("anomaly ") + kind.kind + ", " + std::to_string(total) + " so far";
}

}  // namespace

AnomalyLog::AnomalyLog() : AnomalyLog([](const std::string& line) { log(LogLevel::warning, line); }) {}

AnomalyLog::AnomalyLog(Write write) : write_(std::move(write)), said_(profile::anomaly_kinds().size()) {}

void AnomalyLog::note(const profile::AnomalyCounts& totals, std::uint64_t now_ns) {
  const auto& kinds = profile::anomaly_kinds();
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::uint64_t total = kinds[i].total(totals);
    Said& said = said_[i];
    if (total <= said.total) continue;
    const bool first = said.total == 0;
    if (!first && now_ns < said.at_ns + kRepeatNs) continue;
    write_(line_of(kinds[i], total) + (first ? std::string(": ") + kinds[i].meaning : ""));
    said = {total, now_ns};
  }
}

void AnomalyLog::finish(const profile::AnomalyCounts& totals) {
  const auto& kinds = profile::anomaly_kinds();
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::uint64_t total = kinds[i].total(totals);
    if (total <= said_[i].total) continue;
    write_(line_of(kinds[i], total) + (said_[i].total == 0 ? std::string(": ") + kinds[i].meaning : ""));
    said_[i].total = total;
  }
}

}  // namespace pillion::pipeline
