// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "profile/builder.h"
#include "profile/frame_resolver.h"
#include "profile/profile.h"

namespace pillion::profile {

// Makes the profile of the calls in which the program's threads waited for the GPU: the call is the leaf, its
// time what of it lies in the window. `kernels` ranks the calls by name. On any thread; reads only its
// arguments. Time and calls of the input appear in the samples to the last unit, whatever had to be merged.
[[nodiscard]] Profile build_sync(const BuildInput& input, FrameResolver& resolver);

}  // namespace pillion::profile
