// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "flag_tables.h"
#include "flag_values.h"
#include "mode_reasons.h"

namespace pillion {
namespace {

using namespace std::chrono_literals;

Result<void> set_format(Options& options, const std::string& text) {
  options.format_text = text == "text";
  if (options.format_text) return {};
  const auto format = http::parse_profile_format(text);
  if (!format) return fail("read", "'" + text + "'", "not pprof, json or folded, nor doctor's text");
  options.format = *format;
  return {};
}

Result<void> set_type(Options& options, const std::string& text) {
  const auto type = http::parse_profile_type(text);
  if (!type || !http::is_taken(*type))
    return fail("read", "'" + text + "'", "not one of " + http::taken_types());
  options.type = *type;
  return {};
}

Result<void> set_log_level(Options& options, const std::string& text) {
  static constexpr std::pair<const char*, LogLevel> kLevels[] = {{"debug", LogLevel::debug},
                                                                 {"info", LogLevel::info},
                                                                 {"warning", LogLevel::warning},
                                                                 {"error", LogLevel::error}};
  for (const auto& [name, level] : kLevels) {
    if (text != name) continue;
    options.log_level = level;
    return {};
  }
  return fail("read", "'" + text + "'", "not debug, info, warning or error");
}

constexpr Flag kFlags[] = {
    {"duration", "DURATION", "", "length of the profile (default 20s; with a command: until it ends)",
     kRecord, kWritesNoFile,
     [](Options& o, const std::string& text) {
       return store(parse_duration_within(text, 1ms, 24h), o.duration);
     }},
    {"o", "FILE", "", "file to write, - for stdout (default profile.pb.gz, .json or .folded)", kRecord,
     kWritesNoFile, [](Options& o, const std::string& text) { return store_name(text, o.output); }},
    {"format", "pprof|json|folded|text", "pprof",
     "format of the profile: pprof, json or folded; of doctor's answer: text (its default) or json",
     kRecord | kDoctor, kFormatsNothing, set_format},
    {"type", "gpu|idle|sync", "gpu",
     "what to profile: gpu, what ran on the GPUs; idle, why they had nothing to do, by the launch that ended "
     "it; sync, the calls that waited for them",
     kRecord, kWritesNoFile, set_type},
    {"cupti-dir", "DIR", "", "folder with further libcupti.so files to install (may be repeated)", kInstall,
     kInstallsNothing,
     [](Options& o, const std::string& text) { return store_name(text, o.cupti_dirs.emplace_back()); }, false,
     true},
    {"log-level", "LEVEL", "info", "debug, info, warning or error", kAllModes, {}, set_log_level},
};

}  // namespace

std::span<const Flag> output_flags() { return kFlags; }

}  // namespace pillion
