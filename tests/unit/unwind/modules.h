// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "shapes.h"

namespace pillion::test {

// Every build of shapes.cpp, loaded with lazy binding.
const std::vector<ShapeModule>& shape_modules();

// Runs one descent on the calling thread.
void descend_from_here(unsigned long seed, unsigned depth, void (*leaf)(void*), void* argument);

}  // namespace pillion::test
