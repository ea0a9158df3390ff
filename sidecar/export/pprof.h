// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.h"
#include "profile/profile.h"

namespace pillion::exporting {

// zlib's level 1: see tests/bench/export/README.md for what the higher ones cost and save.
inline constexpr int kGzipLevel = 1;

// A gzipped perftools.profiles.Profile (github.com/google/pprof, proto/profile.proto). The quality block is
// in its comments, one `key=value` each, then `anomaly=kind total meaning: detail`. Thread-safe. Fails only
// when zlib is out of memory.
[[nodiscard]] Result<std::string> to_pprof(const profile::Profile& profile, int gzip_level = kGzipLevel);

// The same before compression.
[[nodiscard]] std::string to_pprof_message(const profile::Profile& profile);

}  // namespace pillion::exporting
