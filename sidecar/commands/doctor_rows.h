// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "commands/program_files.h"
#include "inject/target_look.h"

// What `pillion doctor` found, line by line.
namespace pillion::commands {

enum class RowState : std::uint8_t {
  ok,
  degraded,  // works, with a loss
  missing    // does not work
};
[[nodiscard]] const char* to_string(RowState state);

struct DoctorRow {
  std::string subject;
  std::string finding;
  RowState state = RowState::ok;
  std::string remedy;  // degraded: what is lost; missing: what to add

  [[nodiscard]] std::string line() const;  // "Yama: ptrace_scope is 0: ok"
};
using DoctorRows = std::vector<DoctorRow>;

// What a shim says to one who knocks.
struct ShimAnswer {
  enum class State : std::uint8_t { none, asleep, held, silent };
  State state = State::none;
  std::string socket;            // through which it was asked
  std::string text;              // held: by whom; silent: why
  std::uint32_t holder_pid = 0;  // held: 0 when not visible from there
};

// Asks at the socket that the look found, or at the one of that process in `socket_directory`, which may be
// seen where the process may not. Takes half a second at most.
[[nodiscard]] ShimAnswer ask_shim(const inject::TargetLook& look, const std::string& socket_directory);

// What pillion itself has to work with.
struct Equipment {
  std::string shim;              // libpillion.so to load; empty: there is none
  std::vector<CuptiFile> cupti;  // to hand over
  std::string socket_directory;
};
[[nodiscard]] DoctorRows equipment_rows(const Equipment& equipment);

// One process. The last row says whether a profile of it can be had, or how.
[[nodiscard]] DoctorRows process_rows(const inject::TargetLook& look, const ShimAnswer& shim,
                                      const Equipment& equipment);

}  // namespace pillion::commands
