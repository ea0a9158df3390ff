// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pillion::discovery {

struct SurveyedProcess {
  std::uint32_t pid = 0;  // as this sidecar's /proc names it
  std::uint32_t uid = 0;
  std::string comm;  // printable
  bool has_shim = false;
};

struct SurveyLimits {
  std::size_t processes_max = 4'096;
  std::size_t maps_bytes_max = 4u << 20;       // of one process
  std::size_t all_maps_bytes_max = 64u << 20;  // of the whole survey
  std::size_t listed_max = 16;                 // kept by name in each list; the rest counted
};

// What a look at /proc can say about why no shim is there.
struct ProcessSurvey {
  std::size_t processes = 0;
  std::vector<SurveyedProcess> cuda;        // libcuda mapped
  std::vector<SurveyedProcess> unreadable;  // maps may not be read
  std::size_t cuda_without_shim = 0;
  std::size_t cuda_with_shim = 0;
  std::size_t unreadable_count = 0;
  bool cut = false;   // a limit ended it early
  std::string error;  // why /proc could not be listed, empty when it could

  // For people: which processes use CUDA without the shim, which could not be read and what that needs, what
  // to do.
  [[nodiscard]] std::string text() const;
};

// Reads `proc_root`/PID/maps of every process. Thread-safe; takes milliseconds, so not for each request.
[[nodiscard]] ProcessSurvey survey_processes(const std::string& proc_root = "/proc",
                                             const SurveyLimits& limits = {});

}  // namespace pillion::discovery
