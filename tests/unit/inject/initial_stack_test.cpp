// SPDX-License-Identifier: Apache-2.0
#include "inject/initial_stack.h"

#include <elf.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "inject/process_folder.h"

namespace pillion::inject {
namespace {

TargetMemory own_memory() { return TargetMemory(static_cast<std::uint32_t>(::getpid())); }

std::optional<bool> secure(const std::vector<std::uint64_t>& stack) {
  return secure_by_initial_stack(own_memory(), reinterpret_cast<std::uint64_t>(stack.data()));
}

}  // namespace

TEST_CASE("AT_SECURE is found behind arguments and environment", "[stack]") {
  CHECK(secure({2, 11, 12, 0, 21, 22, 0, AT_PAGESZ, 4096, AT_SECURE, 1, AT_NULL, 0}) == true);
  CHECK(secure({0, 0, 0, AT_SECURE, 0, AT_NULL, 0}) == false);
  // After unsetenv.
  CHECK(secure({1, 11, 0, 22, 0, 0, AT_PAGESZ, 4096, AT_SECURE, 1, AT_NULL, 0}) == true);
  CHECK(secure({1, 11, 0, 0, AT_PAGESZ, 4096, AT_NULL, 0}) == std::nullopt);
  CHECK(secure({1u << 30, 0, 0, AT_SECURE, 1}) == std::nullopt);
  CHECK(secure_by_initial_stack(own_memory(), 0) == std::nullopt);
  CHECK(secure_by_initial_stack(own_memory(), 4096) == std::nullopt);
}

TEST_CASE("the kernel's own stack of this process says what getauxval says", "[stack]") {
  const auto folder = ProcessFolder::open("/proc", static_cast<std::uint32_t>(::getpid()));
  REQUIRE(folder.has_value());
  const auto stat = parse_stat(folder->read("stat").value());
  REQUIRE(stat.has_value());
  CHECK(secure_by_initial_stack(own_memory(), stat->start_stack) == (::getauxval(AT_SECURE) != 0));
}

}  // namespace pillion::inject
