// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)
#include "arch_x86_64.h"
#else
#error "no port to this processor yet: see arch_x86_64.h for what one has to offer"
#endif
