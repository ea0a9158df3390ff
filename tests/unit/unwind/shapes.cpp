// SPDX-License-Identifier: Apache-2.0
// Built several times, with several compilers and flags. No includes of the project's but shapes.h: clang and
// -static-pie children build it too.
#include "shapes.h"

#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

namespace {

#define SHAPE [[gnu::noinline]] static long

thread_local Descent* t_descent = nullptr;

unsigned long next_random(Descent* descent) {
  descent->seed = descent->seed * 6364136223846793005UL + 1442695040888963407UL;
  return descent->seed >> 33;
}

SHAPE descend(Descent* descent) {
  if (descent->depth == 0) {
    descent->leaf(descent->argument);
    return 1;
  }
  --descent->depth;
  const unsigned long random = next_random(descent);
  const ShapeModule& module = descent->modules[random % descent->module_count];
  return module.shapes[random / 64 % module.count](descent) + 1;
}

SHAPE plain(Descent* descent) { return descend(descent) * 3 + 1; }

SHAPE many_registers(Descent* descent) {
  long a = next_random(descent), b = a * 3, c = a * 5, d = a * 7, e = a * 11, f = a * 13;
  const long got = descend(descent);
  return got + (a ^ b) + (c ^ d) + (e ^ f);
}

SHAPE variable_array(Descent* descent) {
  const unsigned long bytes = 16 + next_random(descent) % 700;
  auto* memory = static_cast<volatile char*>(alloca(bytes));
  memory[0] = 1;
  memory[bytes - 1] = 2;
  return descend(descent) + memory[0] + memory[bytes - 1];
}

SHAPE realigned(Descent* descent) {
  alignas(64) volatile long values[8] = {};
  values[descent->depth % 8] = 5;
  return descend(descent) + values[descent->depth % 8];
}

SHAPE realigned_variable(Descent* descent) {
  alignas(64) volatile long values[8] = {};
  const unsigned long bytes = 16 + next_random(descent) % 300;
  auto* memory = static_cast<volatile char*>(alloca(bytes));
  memory[0] = 3;
  values[1] = 2;
  return descend(descent) + memory[0] + values[1];
}

SHAPE big_frame(Descent* descent) {
  volatile char block[40000];
  block[0] = 1;
  block[39999] = 1;
  return descend(descent) + block[0] + block[39999];
}

int compare_descending(const void*, const void*) {
  if (Descent* descent = t_descent) {
    t_descent = nullptr;
    descend(descent);
  }
  return 0;
}

SHAPE through_qsort(Descent* descent) {
  long values[4] = {4, 3, 2, 1};
  t_descent = descent;
  qsort(values, 4, sizeof(long), compare_descending);
  return values[0];
}

SHAPE through_sort(Descent* descent) {
  std::vector<int> values{3, 1, 2};
  bool done = false;
  std::sort(values.begin(), values.end(), [&](int left, int right) {
    if (!done) {
      done = true;
      descend(descent);
    }
    return left < right;
  });
  return values[0];
}

SHAPE through_function(Descent* descent) {
  const std::function<long(int)> call = [descent](int add) { return descend(descent) + add; };
  return call(static_cast<int>(descent->depth)) + 1;
}

struct Base {
  virtual ~Base() = default;
  virtual long run(Descent* descent) = 0;
};
struct Derived : Base {
  long run(Descent* descent) override { return descend(descent) + 2; }
};

SHAPE through_virtual(Descent* descent) {
  std::unique_ptr<Base> object = std::make_unique<Derived>();
  return object->run(descent) + 1;
}

SHAPE in_catch(Descent* descent) {
  try {
    throw std::runtime_error("expected");
  } catch (const std::exception& error) {
    return descend(descent) + static_cast<long>(strlen(error.what()));
  }
}

SHAPE in_destructor(Descent* descent) {
  struct Guard {
    Descent* guarded;
    ~Guard() { descend(guarded); }
  };
  const Guard guard{descent};
  return 4;
}

void descend_once() {
  Descent* descent = t_descent;
  t_descent = nullptr;
  if (descent != nullptr) descend(descent);
}

SHAPE through_once(Descent* descent) {
  pthread_once_t once = PTHREAD_ONCE_INIT;
  t_descent = descent;
  pthread_once(&once, descend_once);
  return 1;
}

void on_signal(int) { descend_once(); }

SHAPE through_signal(Descent* descent) {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_NODEFER;
  struct sigaction before = {};
  sigaction(SIGUSR2, &action, &before);
  t_descent = descent;
  raise(SIGUSR2);
  return 2;
}

SHAPE many_arguments(Descent* descent, long a, long b, long c, long d, long e, long f, long g) {
  return descend(descent) + a + b + c + d + e + f + g;
}

SHAPE stack_arguments(Descent* descent) {
  const long r = next_random(descent);
  return many_arguments(descent, r, r + 1, r + 2, r + 3, r + 4, r + 5, r + 6) + 1;
}

constexpr Shape kShapes[] = {
    plain,         many_registers, variable_array,   realigned,       realigned_variable,
    through_qsort, through_sort,   through_function, through_virtual, in_catch,
    in_destructor, through_once,   stack_arguments,  through_signal,  big_frame};

}  // namespace

extern "C" [[gnu::visibility("default")]] ShapeModule get_shape_module() {
  return {kShapes, sizeof kShapes / sizeof kShapes[0]};
}
