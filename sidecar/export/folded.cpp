// SPDX-License-Identifier: Apache-2.0
#include "export/folded.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace pillion::exporting {
namespace {

void append_frame(std::string& line, const std::string& name) {
  if (!line.empty()) line += ';';
  const std::size_t from = line.size();
  line += name.empty() ? "?" : name;
  std::replace(line.begin() + static_cast<std::ptrdiff_t>(from), line.end(), ';', ':');
}

std::string process_of(const profile::Profile& profile, const profile::Sample& sample) {
  std::string comm = "process";
  std::string pid;
  for (const profile::Label& label : sample.labels) {
    const std::string& key = profile.text(label.key);
    if (key == "process") comm = profile.text(label.text);
    if (key == "pid") pid = std::to_string(label.number);
  }
  return comm + " (" + pid + ")";
}

}  // namespace

std::string to_folded(const profile::Profile& profile, profile::ValueIndex value) {
  std::vector<std::pair<std::string, std::int64_t>> lines;
  lines.reserve(profile.samples.size());
  for (const profile::Sample& sample : profile.samples) {
    if (sample.values[value] == 0) continue;
    std::string line;
    if (profile.processes.size() > 1) append_frame(line, process_of(profile, sample));
    for (auto id = sample.locations.rbegin(); id != sample.locations.rend(); ++id) {
      const auto& inlined = profile.locations[*id - 1].lines;
      for (auto at = inlined.rbegin(); at != inlined.rend(); ++at) {
        append_frame(line, profile.text(profile.functions[at->function - 1].name));
      }
    }
    lines.emplace_back(std::move(line), sample.values[value]);
  }
  std::sort(lines.begin(), lines.end());
  std::string out;
  for (std::size_t i = 0; i < lines.size();) {
    const std::string& line = lines[i].first;
    std::int64_t total = 0;
    for (; i < lines.size() && lines[i].first == line; ++i) total += lines[i].second;
    out += line + ' ' + std::to_string(total) + '\n';
  }
  return out;
}

}  // namespace pillion::exporting
