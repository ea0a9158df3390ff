// SPDX-License-Identifier: Apache-2.0
#include "session/messages.h"

#include <cstring>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include "fake_shim.h"

using namespace pillion::session;

namespace {

template <typename Wire>
std::vector<std::byte> bytes_of(const Wire& wire) {
  std::vector<std::byte> bytes(sizeof(wire));
  std::memcpy(bytes.data(), &wire, sizeof(wire));
  return bytes;
}

}  // namespace

TEST_CASE("HELLO is read field by field") {
  auto wire = good_hello();
  wire.driver_version = 13000;
  wire.cupti_version = 26;
  const auto message = parse_message(bytes_of(wire));
  REQUIRE(message.has_value());
  const auto& hello = std::get<Hello>(*message);
  CHECK(hello.pid == 2);
  CHECK(hello.pid_namespace == 1);
  CHECK(hello.start_time == 3);
  CHECK(hello.has_context());
  CHECK(hello.driver_version == 13000);
  CHECK(hello.cupti_version == 26);
  CHECK(hello.comm == "train");
  CHECK(hello.exe == "/usr/bin/train");
}

TEST_CASE("PYTHON says what was found, in words") {
  auto wire = make_message<pillion_python>(PILLION_PYTHON);
  wire.generation = 4;
  wire.version = 0x030b02f0;
  wire.state = PILLION_PYTHON_IN_FORCE;
  auto message = parse_message(bytes_of(wire));
  REQUIRE(message.has_value());
  CHECK(std::get<Python>(*message).generation == 4);
  CHECK(python_summary(std::get<Python>(*message)) == "3.11.2: in force");
  wire.version = 0x030e00c1;
  wire.state = PILLION_PYTHON_VERSION;
  std::memcpy(wire.text, "pre-\nrelease", 12);
  message = parse_message(bytes_of(wire));
  CHECK(python_summary(std::get<Python>(*message)) ==
        "3.14.0rc1: a version that is not known (pre-?release)");
  wire.version = 0;
  wire.state = 77;
  wire.text[0] = '\0';
  message = parse_message(bytes_of(wire));
  CHECK(python_summary(std::get<Python>(*message)) == "number 77");
}

TEST_CASE("text without an end, and text with control characters") {
  auto wire = good_hello();
  std::memset(wire.comm, 'x', sizeof(wire.comm));
  std::memcpy(wire.exe, "a\x1b[2J\xff", 7);
  const auto message = parse_message(bytes_of(wire));
  REQUIRE(message.has_value());
  CHECK(std::get<Hello>(*message).comm == std::string(16, 'x'));
  CHECK(std::get<Hello>(*message).exe == "a?[2J?");
}

TEST_CASE("a larger message is a newer minor, a smaller one is refused") {
  auto wire = good_hello();
  wire.header.minor = 9;
  wire.header.size = sizeof(wire) + 64;
  auto larger = bytes_of(wire);
  larger.resize(wire.header.size);
  REQUIRE(parse_message(larger).has_value());
  CHECK(std::get<Hello>(*parse_message(larger)).minor == 9);

  wire.header.size = sizeof(wire) - 8;
  auto smaller = bytes_of(wire);
  smaller.resize(wire.header.size);
  const auto refused = parse_message(smaller);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message().find("616 bytes, needs 624") != std::string::npos);
}

TEST_CASE("another major is told with its version and nothing else is read") {
  auto wire = make_message<pillion_query>(PILLION_HELLO);  // far too small for a HELLO
  wire.header.major = 7;
  wire.header.minor = 3;
  wire.header.size = 12'345;
  const auto message = parse_message(bytes_of(wire));
  REQUIRE(message.has_value());
  CHECK(std::get<OtherMajor>(*message).major == 7);
  CHECK(std::get<OtherMajor>(*message).minor == 3);
}

TEST_CASE("wrong magic, wrong size, no header") {
  auto wire = good_hello();
  wire.header.magic = 1;
  CHECK_FALSE(parse_message(bytes_of(wire)).has_value());
  wire = good_hello();
  wire.header.size += 1;
  CHECK_FALSE(parse_message(bytes_of(wire)).has_value());
  CHECK_FALSE(parse_message({}).has_value());
  CHECK_FALSE(parse_message(std::vector<std::byte>(15)).has_value());
}

TEST_CASE("every message cut at every length is refused, not read past") {
  // `least`: what version 1.0 had of it.
  const auto check = [](auto wire, std::size_t least = sizeof(wire)) {
    const auto whole = bytes_of(wire);
    for (std::size_t length = 0; length < least; ++length) {
      std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
      if (length >= sizeof(pillion_message_header)) {
        const auto size = static_cast<std::uint32_t>(length);
        std::memcpy(cut.data() + offsetof(pillion_message_header, size), &size, sizeof(size));
      }
      CHECK_FALSE(parse_message(cut).has_value());
    }
    CHECK(parse_message(whole).has_value());
  };
  check(make_message<pillion_hello>(PILLION_HELLO));
  check(make_message<pillion_busy>(PILLION_BUSY));
  check(make_message<pillion_armed>(PILLION_ARMED), PILLION_ARMED_BYTES_1_0);
  check(make_message<pillion_refused>(PILLION_REFUSED));
  check(make_message<pillion_flushed>(PILLION_FLUSHED));
  check(make_message<pillion_disarmed>(PILLION_DISARMED));
  check(make_message<pillion_maps>(PILLION_MAPS));
  check(make_message<pillion_file>(PILLION_FILE));
}

TEST_CASE("ARMED of version 1.0 says nothing of lease, finalize and rings") {
  auto wire = make_message<pillion_armed>(PILLION_ARMED);
  wire.stack_bytes_max = 4096;
  wire.lease_ms = 7'000;
  wire.detach = PILLION_DISARM_FINALIZE;
  const auto whole = std::get<Armed>(*parse_message(bytes_of(wire)));
  CHECK(whole.tells_everything);
  CHECK(whole.settings.lease_ms == 7'000);
  CHECK(whole.settings.finalize);
  wire.header.size = PILLION_ARMED_BYTES_1_0;
  auto bytes = bytes_of(wire);
  bytes.resize(PILLION_ARMED_BYTES_1_0);
  const auto old = std::get<Armed>(*parse_message(bytes));
  CHECK_FALSE(old.tells_everything);
  CHECK(old.settings.stack_bytes_max == 4096);
}

TEST_CASE("MAPS may not claim more text than it has") {
  auto wire = make_message<pillion_maps>(PILLION_MAPS);
  wire.bytes = 1;
  CHECK_FALSE(parse_message(bytes_of(wire)).has_value());
  wire.bytes = 0xffffffff;
  CHECK_FALSE(parse_message(bytes_of(wire)).has_value());
}

TEST_CASE("numbers that this version does not know are named by number") {
  CHECK(refusal_name(PILLION_REFUSAL_SUBSCRIBER_HELD) == "subscriber held");
  CHECK(refusal_name(999) == "number 999");
  CHECK(disarm_reason_name(77) == "number 77");
  CHECK(residue_name(88) == "number 88");
}
