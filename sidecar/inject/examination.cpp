// SPDX-License-Identifier: Apache-2.0
#include "inject/examination.h"

#include "inject/target_look.h"

namespace pillion::inject {

tl::expected<Examination, Refusal> examine(std::uint32_t pid, const ExaminationOptions& options) {
  TargetLook look = look_at_target(pid);
  if (auto refusal = look.refusal(options)) return tl::make_unexpected(std::move(*refusal));
  return std::move(look.examination);
}

}  // namespace pillion::inject
