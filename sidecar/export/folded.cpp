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

// "Model.forward (model.py:12)": a qualified name alone does not say which file's <module> it is, nor tell
// two lines of one loop apart.
std::string python_name(const profile::Profile& profile, const profile::Line& at) {
  const profile::Function& function = profile.functions[at.function - 1];
  const std::string& file = profile.text(function.file);
  std::string place = file.substr(file.rfind('/') + 1);
  if (at.line != 0) place += ":" + std::to_string(at.line);
  return profile.text(function.name) + (place.empty() ? "" : " (" + place + ")");
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

std::string to_folded(const profile::Profile& profile, std::size_t value) {
  std::vector<std::pair<std::string, std::int64_t>> lines;
  lines.reserve(profile.samples.size());
  for (const profile::Sample& sample : profile.samples) {
    if (sample.values[value] == 0) continue;
    std::string line;
    if (profile.processes.size() > 1) append_frame(line, process_of(profile, sample));
    for (auto id = sample.locations.rbegin(); id != sample.locations.rend(); ++id) {
      const profile::Location& location = profile.locations[*id - 1];
      for (auto at = location.lines.rbegin(); at != location.lines.rend(); ++at) {
        append_frame(line, location.python ? python_name(profile, *at)
                                           : profile.text(profile.functions[at->function - 1].name));
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
