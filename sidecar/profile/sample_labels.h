// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "profile/builder.h"
#include "profile/profile.h"
#include "profile/text.h"

namespace pillion::profile {

// Writes the labels that samples of every type have. One owner; `texts` outlives it.
class SampleLabels {
 public:
  explicit SampleLabels(TextTable& texts) : texts_(texts) {}

  // Nothing when `text` is empty.
  void text(Sample& out, std::string_view key, std::string_view text);
  void number(Sample& out, std::string_view key, std::int64_t number);

  void process(Sample& out, const TargetInput& target);
  // `target.data` must be there.
  void device(Sample& out, const TargetInput& target, std::uint32_t device);
  // Context, stream, thread and how the stack was found.
  void launch(Sample& out, const TargetInput& target, const JoinedSample& sample);
  // Nothing when `tid` is 0.
  void thread(Sample& out, const TargetInput& target, std::uint32_t tid);
  // How the stack was found, and where it ended if not at the root.
  void found(Sample& out, const TargetInput& target, const JoinedSample& sample);

 private:
  TextTable& texts_;
};

[[nodiscard]] const char* attribution_name(Attribution attribution);

// GPU-... or MIG-..., as nvidia-smi prints it.
[[nodiscard]] std::string uuid_text(const RawDevice& device);

}  // namespace pillion::profile
