// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cupti_types.h"

// What the library records at the moment, and its hooks in the libcuda double.
namespace simgpu {

// The first call of a session: 15 when no driver is initialised or it is too old for this library; dies by
// SIGSEGV where the real one does (11.7 and older under a new driver).
pillion::cupti::Result begin_session();
void end_session();  // finalize: hooks away, ids restart

pillion::cupti::Result enable_kind(std::uint32_t kind);
pillion::cupti::Result disable_kind(std::uint32_t kind);
pillion::cupti::Result dump_kind(std::uint32_t kind);  // records of what exists already

}  // namespace simgpu
