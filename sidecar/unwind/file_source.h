// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "records.h"
#include "unwind/maps_table.h"

namespace pillion::unwind {

// Where the unwinder gets a target's mapped files from: the pipeline asks the shim. Called on the unwinder's
// thread, once per file and target; may block up to a bound of its own. The descriptor is read-only and
// belongs to the caller.
class FileSource {
 public:
  virtual ~FileSource() = default;
  virtual Result<UniqueFd> open(TargetId target, const Mapping& mapping) = 0;
};

}  // namespace pillion::unwind
