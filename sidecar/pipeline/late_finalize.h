// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace pillion::pipeline {

// When to try again to finalize CUPTI in a process that a detach could not rid of it. Until then its launches
// are slower than they were: a PyTorch training step by 12 % (H200, CUDA 13.0: tests/gpu/attach_bare.py). Who
// has asked for a last profile does not come again to mend that. While the process is idle nothing is lost,
// and nothing would come of trying. One thread.
class LateFinalize {
 public:
  static constexpr std::uint64_t kFirstWaitNs = 5'000'000'000;      // doubled by each that fails
  static constexpr std::uint64_t kLongestWaitNs = 600'000'000'000;  // and between the shim's own earnings
  static constexpr std::uint64_t kLookNs = 500'000'000;             // over which a process is seen to work
  static constexpr std::uint64_t kWorksNs = 10'000'000;             // of processor time in a look

  // A detach has ended; `residue` is enum pillion_residue. `asked`: we wanted it, and wanted CUPTI finalized.
  void detached(std::uint32_t residue, bool asked, std::uint64_t now_ns);
  // The shim would not be armed for it.
  void refused() { at_ns_ = 0; }

  // True once the time has come and the process has been seen to work. `processor_ns`: what it has used in
  // all; asked for only after the wait, and about once in kLookNs.
  [[nodiscard]] bool due(std::uint64_t now_ns, const std::function<std::uint64_t()>& processor_ns);
  // It is being tried.
  void trying() { at_ns_ = 0; }

 private:
  std::uint64_t at_ns_ = 0;  // 0: there is nothing to try
  std::uint64_t wait_ns_ = kFirstWaitNs;
  std::uint64_t looked_ns_ = 0;  // 0: not since the wait
  std::uint64_t used_ns_ = 0;
};

// What all threads of a process have used; 0 when it is gone. `pid` in our own PID namespace.
[[nodiscard]] std::uint64_t processor_ns(std::uint32_t pid);

}  // namespace pillion::pipeline
