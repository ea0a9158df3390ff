// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <map>
#include <mutex>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace pillion {
namespace {

constexpr std::size_t kKindsMax = 1024;

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made =
        std::make_shared<spdlog::logger>("pillion", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

struct Kinds {
  std::mutex mutex;
  std::map<std::string, std::uint64_t, std::less<>> counts;
};

Kinds& kinds() {
  static Kinds instance;
  return instance;
}

}  // namespace

void log(LogLevel level, std::string_view text) { logger().log(to_spdlog(level), "{}", text); }

void set_log_level(LogLevel level) { logger().set_level(to_spdlog(level)); }

void log_once(LogLevel level, std::string_view kind, std::string_view text) {
  {
    const std::lock_guard lock(kinds().mutex);
    auto& counts = kinds().counts;
    auto found = counts.find(kind);
    if (found == counts.end()) {
      if (counts.size() >= kKindsMax) return;
      found = counts.emplace(kind, 0).first;
    }
    if (++found->second > 1) return;
  }
  log(level, text);
}

std::uint64_t logged(std::string_view kind) {
  const std::lock_guard lock(kinds().mutex);
  const auto found = kinds().counts.find(kind);
  return found == kinds().counts.end() ? 0 : found->second;
}

}  // namespace pillion
