// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "inject/attach_access.h"
#include "inject/delivery_path.h"
#include "inject/examination.h"
#include "inject/seccomp_filters.h"
#include "inject/target_program.h"

namespace pillion::inject {

struct LookOptions {
  std::string proc_root = "/proc";
  AttachProbe probe = probe_attach;
};

// Everything that was found out about one process, each subject by itself: what stands in the way of one does
// not keep the others from being looked at. examine() takes the first obstacle, `doctor` shows them all.
struct TargetLook {
  Examination examination;  // the fields that could be found

  // Obstacles in the order in which they count; unset: none.
  std::optional<Refusal> process;  // gone, no process of its own, stopped
  std::optional<Refusal> tracer;
  std::optional<Refusal> access;   // set: nothing below could be looked at
  std::optional<Refusal> program;  // libraries
  std::optional<Refusal> cuda;     // not used; -force passes over it
  std::optional<Refusal> seccomp;  // a filter that nobody knows; -force passes over it
  std::optional<Refusal> delivery;

  AttachRights rights;
  SeccompFilters filters;
  TargetProgram found;

  // The first obstacle that counts; nothing when there is none, and when there is a shim already.
  [[nodiscard]] std::optional<Refusal> refusal(const ExaminationOptions& options) const;
};

[[nodiscard]] TargetLook look_at_target(std::uint32_t pid, const LookOptions& options = {});

}  // namespace pillion::inject
