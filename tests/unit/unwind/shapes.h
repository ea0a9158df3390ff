// SPDX-License-Identifier: Apache-2.0
#pragma once

// Stacks to take snapshots of. A module is one build of shapes.cpp with its own compiler and flags; a descent
// goes from shape to shape, module to module, until its depth is used up, and then calls its leaf.
struct Descent;

using Shape = long (*)(Descent* descent);

struct ShapeModule {
  const Shape* shapes;
  unsigned count;
};

struct Descent {
  unsigned long seed;
  unsigned depth;
  void (*leaf)(void* argument);
  void* argument;
  const ShapeModule* modules;
  unsigned module_count;
};

// Exported by each module.
using GetModule = ShapeModule (*)();
