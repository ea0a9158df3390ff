// SPDX-License-Identifier: Apache-2.0
#include "inject/thread_choice.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

namespace pillion::inject {
namespace {

unsigned suitability_of(const std::string& call) {
  const auto thread = parse_syscall_text(call + " 0x7ffd1000 0x7f0000001000\n");
  REQUIRE(thread.has_value());
  CHECK(thread->stack_pointer == 0x7ffd1000);
  CHECK(thread->instruction == 0x7f0000001000);
  return suitability(*thread);
}

}  // namespace

TEST_CASE("which thread may be borrowed is told by what it sleeps in", "[threads]") {
  CHECK(suitability_of("35 0x1 0x0 0x0 0x0 0x0 0x0") > 0);            // nanosleep
  CHECK(suitability_of("202 0x1 0x189 0x2 0x0 0x0 0xffffffff") > 0);  // a condition variable
  CHECK(suitability_of("202 0x1 0x80 0x2 0x0 0x0 0x0") == 0);         // a lock, malloc's perhaps
  CHECK(suitability_of("202 0x1 0x80 0x1 0x0 0x0 0x0") > 0);
  CHECK(suitability_of("9 0x0 0x0 0x0 0x0 0x0 0x0") == 0);    // mmap
  CHECK(suitability_of("12 0x0 0x0 0x0 0x0 0x0 0x0") == 0);   // brk
  CHECK(suitability_of("10 0x0 0x0 0x0 0x0 0x0 0x0") == 0);   // mprotect
  CHECK(suitability_of("257 0x0 0x0 0x0 0x0 0x0 0x0") == 0);  // openat
  // What would see EINTR comes last.
  CHECK(suitability_of("232 0x0 0x0 0x0 0x0 0x0 0x0") < suitability_of("0 0x0 0x0 0x0 0x0 0x0 0x0"));
}

TEST_CASE("a thread that runs, or is stopped outside a call, is none", "[threads]") {
  CHECK_FALSE(parse_syscall_text("running\n").has_value());
  CHECK_FALSE(parse_syscall_text("-1 0x7ffd 0x7f00\n").has_value());
  CHECK_FALSE(parse_syscall_text("0 0x1 0x2").has_value());
  CHECK_FALSE(parse_syscall_text("").has_value());
}

TEST_CASE("a stack has the room that lies below it, the main one grows", "[threads]") {
  const std::string maps =
      "1000-2000 r-xp 00000000 00:00 0 /bin/x\n"
      "10000-50000 rw-p 00000000 00:00 0 \n"
      "7ffc0000-7ffd0000 rw-p 00000000 00:00 0                          [stack]\n";
  CHECK(stack_has_room(maps, 0x30000, 0x20000));
  CHECK_FALSE(stack_has_room(maps, 0x30000, 0x20001));
  CHECK_FALSE(stack_has_room(maps, 0x1800, 1));
  CHECK_FALSE(stack_has_room(maps, 0x60000, 1));
  CHECK(stack_has_room(maps, 0x7ffc0010, 0x100000));
}

}  // namespace pillion::inject
