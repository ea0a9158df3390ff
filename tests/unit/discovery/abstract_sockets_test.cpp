// SPDX-License-Identifier: Apache-2.0
#include "discovery/abstract_sockets.h"

#include <catch2/catch_test_macros.hpp>

namespace pillion::discovery {

TEST_CASE("shims that listen at abstract sockets are found in the kernel's table", "[abstract]") {
  const auto found = parse_abstract_sockets(
      "Num       RefCount Protocol Flags    Type St Inode Path\n"
      "00000000e5296456: 00000002 00000000 00010000 0005 01  1588 @pillion-4026531836-17-4711.sock\n"
      "00000000e5296457: 00000003 00000000 00000000 0005 03  1589 @pillion-4026531836-17-4711.sock\n"  // accepted
      "00000000e5296458: 00000002 00000000 00010000 0005 01  1590 /run/pillion/pillion-4026531836-18-1.sock\n"
      "00000000e5296459: 00000002 00000000 00010000 0005 01  1591 @pillion-inject-4026531836-17-4711\n"
      "00000000e5296459: 00000002 00000000 00010000 0001 01  1592 @/tmp/.X11-unix/X0\n"
      "00000000e5296459: 00000002 00000000 00010000 0005 01  1593\n"
      "garbage");
  REQUIRE(found.size() == 1);
  CHECK(found[0].address == ShimAddress{"@pillion-4026531836-17-4711.sock", 4026531836, 17, 4711});
  CHECK(found[0].inode == 1588);
  CHECK(parse_abstract_sockets("").empty());
}

}  // namespace pillion::discovery
