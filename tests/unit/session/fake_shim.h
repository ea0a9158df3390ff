// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "base/event_loop.h"
#include "base/unique_fd.h"
#include "session/session.h"

namespace pillion::session {

// A packet as the shim got it.
struct Got {
  std::uint32_t type = 0;
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> fds;

  template <typename Wire>
  [[nodiscard]] Wire as() const {
    REQUIRE(bytes.size() == sizeof(Wire));
    Wire wire;
    std::memcpy(&wire, bytes.data(), sizeof(wire));
    return wire;
  }
};

// The shim's end of the wire, moved by hand: listens on a real socket and says exactly what a test wants it
// to say.
class FakeShim {
 public:
  FakeShim();
  ~FakeShim();
  FakeShim(const FakeShim&) = delete;
  FakeShim& operator=(const FakeShim&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  void accept();  // waits for the sidecar
  [[nodiscard]] bool somebody_waits() const;
  void stop_listening() { listener_.reset(); }
  void close() { peer_.reset(); }  // as the kernel does when the process dies
  [[nodiscard]] int peer() const { return peer_.get(); }

  // Sends `wire` as it is.
  template <typename Wire>
  void send(const Wire& wire, std::span<const int> fds = {}) const {
    send_bytes(std::as_bytes(std::span(&wire, 1)), fds);
  }
  void send_bytes(std::span<const std::byte> bytes, std::span<const int> fds = {}) const;
  void send_text_piece(std::uint32_t generation, std::uint32_t index, bool last,
                       const std::string& text) const;
  [[nodiscard]] Got receive() const;                    // waits; the test fails when nothing comes
  [[nodiscard]] Got receive(std::uint32_t type) const;  // skips others

 private:
  std::string directory_;
  std::string path_;
  UniqueFd listener_;
  UniqueFd peer_;
};

pillion_hello good_hello();

// What an observer was told.
struct Told final : SessionObserver {
  void on_hello(Session&, const Hello& hello) override { hellos.push_back(hello); }
  void on_armed(Session&, const Armed& value) override { armed.push_back(value); }
  void on_refused(Session&, const Refused& value) override { refused.push_back(value); }
  void on_disarmed(Session&, const Disarmed& value) override { disarmed.push_back(value); }
  void on_maps(Session&, MapsText value) override { maps.push_back(std::move(value)); }
  void on_gone(Session&, const Gone& value) override {
    gone.push_back(value);
    if (when_gone) when_gone();
  }
  std::vector<Hello> hellos;
  std::vector<Armed> armed;
  std::vector<Refused> refused;
  std::vector<Disarmed> disarmed;
  std::vector<MapsText> maps;
  std::vector<Gone> gone;
  std::function<void()> when_gone;
};

// A loop, a fake shim and a session with it.
struct Pair {
  explicit Pair(SessionOptions options = {});
  void run_until(const std::function<bool()>& condition) const;  // the test fails after 10 s
  void connect();                                                // up to accept
  void greet();                                                  // and HELLO
  void arm(const ArmConfig& config);                             // and ARM, ARMED
  const Gone& run_until_gone() const;

  Told told;
  std::unique_ptr<EventLoop> loop;
  std::shared_ptr<RingBudget> budget = std::make_shared<RingBudget>();
  FakeShim shim;
  std::unique_ptr<Session> session;
};

ArmConfig small_config();

}  // namespace pillion::session
