// SPDX-License-Identifier: Apache-2.0
#include "commands/doctor_rows.h"

#include "commands/cupti_pairing.h"

namespace pillion::commands {
namespace {

using inject::Refusal;

// A row that an obstacle speaks in, or else `finding`.
DoctorRow obstacle_row(std::string subject, const std::optional<Refusal>& obstacle, std::string finding) {
  if (!obstacle) return {std::move(subject), std::move(finding), RowState::ok, {}};
  return {std::move(subject), obstacle->reason, RowState::missing, obstacle->hint};
}

DoctorRow shim_row(const inject::TargetLook& look, const ShimAnswer& shim) {
  const std::string pid = std::to_string(look.examination.pid);
  const bool mapped = look.examination.resident.has_value();
  switch (shim.state) {
    case ShimAnswer::State::asleep:
      return {"shim", "loaded, asleep at " + shim.socket, RowState::ok, {}};
    case ShimAnswer::State::held:
      return {"shim", "loaded, " + shim.text, shim.holder_pid != 0 ? RowState::ok : RowState::degraded,
              shim.holder_pid != 0 ? "" : "only that sidecar can take profiles"};
    case ShimAnswer::State::silent:
      return {
          "shim", "loaded, but cannot be asked at " + shim.socket + ": " + shim.text, RowState::missing,
          "use the same socket directory, and a user that it lets in (its own, root, or PILLION_ALLOW_UID)"};
    case ShimAnswer::State::none:
      break;
  }
  if (mapped)
    return {"shim", "loaded from " + look.examination.resident->path + ", but it has no socket",
            RowState::missing,
            "make the folder PILLION_SOCKET_DIR before the program starts, and let it write there"};
  return {"shim", "not loaded", RowState::degraded,
          look.access ? "no profile of it" : "no profile before `pillion inject -pid " + pid + "`"};
}

DoctorRow name_space_row(const inject::TargetLook& look) {
  const auto& found = look.examination;
  const std::string inner =
      found.inner_pid == found.pid ? "" : ", where it is " + std::to_string(found.inner_pid);
  return {"PID namespace",
          found.inner_pid == found.pid ? "pillion's own" : "one within pillion's" + inner,
          RowState::ok,
          {}};
}

DoctorRow seccomp_row(const inject::TargetLook& look) {
  if (look.filters.mode == 0) return {"seccomp", "no filter", RowState::ok, {}};
  return obstacle_row("seccomp", look.seccomp,
                      "the filter of its container's runtime, under which a forbidden call fails");
}

DoctorRow cuda_row(const inject::TargetLook& look) {
  return obstacle_row("CUDA", look.cuda, "in use, " + look.found.cuda_library);
}

DoctorRow delivery_row(const inject::TargetLook& look) {
  const auto& found = look.examination;
  if (look.delivery) return obstacle_row("delivery", look.delivery, "");
  const std::string otherwise = found.file_directory.empty()
                                    ? "nothing, for no folder of its root can hold a file that it may execute"
                                    : "a file in its " + found.file_directory;
  return {"delivery",
          "in memory, as /proc/thread-self/fd/N; where it may make no memory file, " + otherwise,
          RowState::ok,
          {}};
}

DoctorRow verdict_row(const inject::TargetLook& look, const ShimAnswer& shim, const Equipment& equipment) {
  if (shim.state == ShimAnswer::State::asleep || shim.state == ShimAnswer::State::held)
    return {"verdict", "profiles can be taken", RowState::ok, {}};
  if (look.examination.resident)
    return {"verdict", "the shim is there, and out of reach", RowState::missing, "see shim"};
  if (const auto refusal = look.refusal({}))
    return {"verdict", "inject would be refused: " + refusal->reason, RowState::missing, refusal->hint};
  if (equipment.shim.empty())
    return {"verdict", "inject would fail", RowState::missing, "libpillion.so beside the program pillion"};
  return {"verdict", "inject would work", RowState::ok, {}};
}

}  // namespace

const char* to_string(RowState state) {
  switch (state) {
    case RowState::ok:
      return "ok";
    case RowState::degraded:
      return "degraded";
    case RowState::missing:
      return "missing";
  }
  return "?";
}

std::string DoctorRow::line() const {
  std::string text = subject + ": " + finding + ": " + to_string(state);
  if (!remedy.empty()) text += " (" + remedy + ")";
  return text;
}

DoctorRows process_rows(const inject::TargetLook& look, const ShimAnswer& shim, const Equipment& equipment) {
  DoctorRows rows;
  if (look.process) {
    rows.push_back(obstacle_row("process", look.process, ""));
    rows.push_back(verdict_row(look, shim, equipment));
    return rows;
  }
  rows.push_back(shim_row(look, shim));
  rows.push_back(name_space_row(look));
  rows.push_back(obstacle_row("tracer", look.tracer, "none"));
  rows.push_back(obstacle_row("permission", look.access, "the kernel lets pillion attach"));
  rows.push_back(seccomp_row(look));
  if (look.access) {
    const std::string unknown = "may not be looked at";
    for (const char* subject : {"C library", "CUDA", "CUPTI", "delivery"})
      rows.push_back({subject, unknown, RowState::degraded, "see permission"});
  } else {
    rows.push_back(obstacle_row("C library", look.program, look.found.c_library));
    rows.push_back(cuda_row(look));
    rows.push_back(cupti_row(look.found, equipment.cupti));
    rows.push_back(delivery_row(look));
  }
  rows.push_back(verdict_row(look, shim, equipment));
  return rows;
}

}  // namespace pillion::commands
