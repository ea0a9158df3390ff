// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <ucontext.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <vector>

#include "adverse.h"

// Threads that are small, short-lived, or outlive main.
namespace adverse {
namespace {

constexpr std::uint64_t kEach = 4;  // launches of each thread

std::atomic<std::uint64_t> ended{0};

void* launch_some(void*) {
  launch(kEach);
  ++ended;
  return nullptr;
}

// Their count, and how large their stacks are.
bool run_threads(std::uint64_t count, std::size_t stack_bytes, bool detached) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, detached ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE);
  if (stack_bytes != 0 && pthread_attr_setstacksize(&attributes, stack_bytes) != 0) return false;
  ended = 0;
  std::vector<pthread_t> threads(count);
  for (pthread_t& thread : threads) {
    if (pthread_create(&thread, &attributes, launch_some, nullptr) != 0) return false;
  }
  if (!detached) {
    for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  }
  while (ended < count) ::usleep(1000);
  return true;
}

std::uint64_t number(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10); }

bool small_threads(const std::string& count) { return run_threads(number(count), 16384, false); }
bool detached_threads(const std::string& count) { return run_threads(number(count), 0, true); }

ucontext_t main_context;
ucontext_t fiber_context;
std::uint64_t fiber_launches;

void launch_on_fiber() { launch(fiber_launches); }

// On a stack that is no thread's own.
bool launch_in_fiber(const std::string& count) {
  std::vector<char> stack(256 * 1024);
  fiber_launches = number(count);
  if (::getcontext(&fiber_context) != 0) return false;
  fiber_context.uc_stack.ss_sp = stack.data();
  fiber_context.uc_stack.ss_size = stack.size();
  fiber_context.uc_link = &main_context;
  ::makecontext(&fiber_context, launch_on_fiber, 0);
  return ::swapcontext(&main_context, &fiber_context) == 0;
}

constexpr Action kActions[] = {
    {"small_threads", small_threads},
    {"detached_threads", detached_threads},
    {"launch_in_fiber", launch_in_fiber},
};

}  // namespace

std::span<const Action> thread_actions() { return kActions; }

}  // namespace adverse
