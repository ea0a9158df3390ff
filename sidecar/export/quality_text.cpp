// SPDX-License-Identifier: Apache-2.0
#include "export/quality_text.h"

#include <cstdio>

namespace pillion::exporting {
namespace {

struct ToText {
  std::string operator()(std::uint64_t number) const { return std::to_string(number); }
  std::string operator()(double number) const {
    char text[40];
    std::snprintf(text, sizeof(text), "%.3f", number);
    return text;
  }
  std::string operator()(const std::string& text) const { return text; }
};

}  // namespace

std::vector<std::string> quality_lines(const profile::Profile& profile) {
  std::vector<std::string> lines;
  lines.reserve(profile.quality.size() + profile.anomalies.size());
  for (const profile::QualityEntry& entry : profile.quality) {
    lines.push_back(entry.name + "=" + std::visit(ToText{}, entry.value));
  }
  for (const profile::Settings& settings : profile.settings) {
    std::string line = "settings pid=" + std::to_string(settings.pid);
    for (const auto& [name, text] : settings_text(settings.in_force))
      line += std::string(" ") + name + "=" + text;
    lines.push_back(std::move(line));
  }
  for (const profile::Anomaly& anomaly : profile.anomalies) {
    lines.push_back("anomaly=" + anomaly.kind + " " + std::to_string(anomaly.total) + " " + anomaly.meaning +
                    (anomaly.detail.empty() ? "" : ": " + anomaly.detail));
  }
  return lines;
}

}  // namespace pillion::exporting
