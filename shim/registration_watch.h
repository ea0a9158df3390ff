// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "arming.h"
#include "cupti_api.h"

namespace pillion::shim {

// Notices that another CUPTI client of the process has taken away what we registered: CUPTI's lock on the
// subscriber does not protect the activity interface, and cuptiFinalize is open to everybody. The signs, each
// tick:
//   - our subscriber handle is no longer known, or our callbacks are off: somebody finalised CUPTI (within
//   one tick);
//   - the clock is no longer ours (within one tick; where it told CLOCK_MONOTONIC at arming);
//   - launches flow, and neither they nor a DEVICE record that we ask for reach our buffers: somebody
//   registered his
//     (CUDA 13.0 and newer, where each thread has a buffer of its own: within 1 s; measured on a GPU, also
//     behind a long kernel: tests/gpu/cupti_facts.cpp);
//   - very many launches in 3 s brought no record: the same for older libraries, or our kinds were disabled.
// Capture thread only.
class RegistrationWatch {
 public:
  struct Counts {
    std::uint64_t launches;    // that did not fail and were not captured
    std::uint64_t executions;  // records received
    std::uint32_t signs;       // activity_signs()
  };

  struct Loss {
    const char* text;  // null: all is well; else what happened, for people
    bool buffers_ours;
    bool subscription_ours;
    bool finalised;  // by somebody else
  };

  void begin(const CuptiApi& api, const Subscription& subscription, std::uint64_t now_ns);

  [[nodiscard]] Loss look(const Counts& counts, std::uint64_t now_ns);

 private:
  [[nodiscard]] Loss silence(const Counts& counts, std::uint64_t now_ns);
  void probe(const Counts& counts, std::uint64_t now_ns);

  const CuptiApi* api_ = nullptr;
  cupti::Subscriber subscriber_ = nullptr;
  bool kernels_ = false;
  bool clock_watched_ = false;
  Counts last_{};  // when something last came
  std::uint64_t silent_since_ns_ = 0;
  std::uint32_t probes_ = 0;       // unanswered, one after the other
  std::uint32_t probe_signs_ = 0;  // before the first of them
  std::uint64_t probe_next_ns_ = 0;
};

}  // namespace pillion::shim
