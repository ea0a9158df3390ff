// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

// What the program can be told to do, and the sets of it that the tables of flags and variables are made of.
namespace pillion {

// record is two modes because its flags differ.
enum class Mode : std::uint8_t { serve, record_attach, record_command, install, probe, inject, doctor };
inline constexpr std::size_t kModes = 7;

// A set of Mode values.
using ModeSet = std::uint32_t;
[[nodiscard]] constexpr ModeSet mode_bit(Mode mode) { return 1u << static_cast<unsigned>(mode); }
inline constexpr ModeSet kAllModes = (1u << kModes) - 1;

inline constexpr ModeSet kServe = mode_bit(Mode::serve);
inline constexpr ModeSet kAttach = mode_bit(Mode::record_attach);
inline constexpr ModeSet kCommand = mode_bit(Mode::record_command);
inline constexpr ModeSet kRecord = kAttach | kCommand;
inline constexpr ModeSet kInstall = mode_bit(Mode::install);
inline constexpr ModeSet kProbe = mode_bit(Mode::probe);
inline constexpr ModeSet kInject = mode_bit(Mode::inject);
inline constexpr ModeSet kDoctor = mode_bit(Mode::doctor);
inline constexpr ModeSet kProfiling = kServe | kRecord;

// Why something does not apply in these modes; finishes the sentence "flag -x cannot be used with `pillion
// record`: ".
struct ModeReason {
  ModeSet modes = 0;
  const char* reason = "";
};

// A few of them, as one value: a mode that is added later is added to a named list, not to every flag.
class ModeReasons {
 public:
  static constexpr std::size_t kMost = 8;

  constexpr ModeReasons() = default;
  constexpr ModeReasons(ModeSet modes, const char* reason) : list_{{{modes, reason}}}, count_(1) {}

  // Too many of them do not compile.
  constexpr ModeReasons operator+(const ModeReasons& more) const {
    ModeReasons sum = *this;
    for (std::size_t at = 0; at < more.count_; ++at) sum.list_.at(sum.count_++) = more.list_[at];
    return sum;
  }

  [[nodiscard]] constexpr std::span<const ModeReason> all() const { return std::span(list_).first(count_); }

  // Null when no reason is for this mode.
  [[nodiscard]] constexpr const char* reason(Mode mode) const {
    for (const auto& one : all()) {
      if ((one.modes & mode_bit(mode)) != 0) return one.reason;
    }
    return nullptr;
  }

 private:
  std::array<ModeReason, kMost> list_{};
  std::size_t count_ = 0;
};

// How often a mode is classified where these apply and those have a reason; anything but once is a mistake in
// a table.
[[nodiscard]] constexpr int times_classified(ModeSet applies, const ModeReasons& reasons, Mode mode) {
  int times = (applies & mode_bit(mode)) != 0 ? 1 : 0;
  for (const auto& one : reasons.all()) times += (one.modes & mode_bit(mode)) != 0 ? 1 : 0;
  return times;
}

// "pillion record -- command", as messages call it.
[[nodiscard]] const char* to_string(Mode mode);

}  // namespace pillion
