// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pillion {

// What a level means:
//   debug    of use to somebody who works on Pillion
//   info     a state a user asked about: attached, window written
//   warning  something is missing or lost, and the profile says so too
//   error    a request or a target failed
enum class LogLevel : std::uint8_t { debug, info, warning, error };

// Thread-safe; writes one line to stderr. spdlog stays inside log.cpp: its headers are slow to compile.
void log(LogLevel level, std::string_view text);
void set_log_level(LogLevel level);

// Logs `text` once for each distinct `kind` and counts the rest. Thread-safe; at most 1,024 kinds are told
// apart.
void log_once(LogLevel level, std::string_view kind, std::string_view text);

// How often log_once() was called with this kind.
[[nodiscard]] std::uint64_t logged(std::string_view kind);

}  // namespace pillion
