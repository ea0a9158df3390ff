// SPDX-License-Identifier: Apache-2.0
// A shim that says anything, in any order, to a real session over a real socket.
//
// Input: packets of {u16 length, u8 action, bytes}. The action moves the session (arm, flush, ...) first. An
// action with its high bit set sends the bytes as they are; without it they get a good header in front, so
// that what lies behind the header is reached often.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "session/session.h"

using namespace pillion;
using namespace pillion::session;

namespace {

struct Observer final : SessionObserver {
  void on_hello(Session&, const Hello& hello) override { touch(hello.exe); }
  void on_armed(Session&, const Armed& armed) override { touch(armed.cupti_path); }
  void on_refused(Session&, const Refused& refused) override { touch(refused.text); }
  void on_disarmed(Session&, const Disarmed& disarmed) override { touch(disarmed.text); }
  void on_maps(Session&, MapsText maps) override { touch(maps.text); }
  void on_python(Session&, const Python& python) override { touch(python_summary(python)); }
  void on_gone(Session&, const Gone& gone) override {
    touch(gone.text);
    ++gone_count;
  }
  void touch(const std::string& text) {
    for (const char c : text) sum += static_cast<unsigned char>(c);
  }
  std::uint64_t sum = 0;
  int gone_count = 0;
};

constexpr std::uint32_t kTypes[] = {1, 2, 3, 4, 5, 6, 7, 8, 50, 64, PILLION_PYTHON};

std::vector<std::byte> packet_of(std::uint8_t action, std::span<const std::uint8_t> bytes,
                                 std::uint64_t generation) {
  const auto raw = std::as_bytes(bytes);
  if ((action & 0x80) != 0) return {raw.begin(), raw.end()};
  const std::uint32_t type = kTypes[(action >> 3) % std::size(kTypes)];
  // At least as long as the shortest version of any message, so that few are refused for their length alone.
  std::vector<std::byte> packet(
      std::max<std::size_t>(sizeof(pillion_hello), sizeof(pillion_message_header) + raw.size()));
  if (type == PILLION_MAPS) packet.resize(std::max<std::size_t>(sizeof(pillion_maps), 16 + raw.size()));
  const pillion_message_header header{PILLION_ABI_MAGIC, PILLION_ABI_MAJOR, PILLION_ABI_MINOR, type,
                                      static_cast<std::uint32_t>(packet.size())};
  std::copy(raw.begin(), raw.end(), packet.begin() + sizeof(header));
  std::memcpy(packet.data(), &header, sizeof(header));
  const bool has_generation =
      type == PILLION_ARMED || type == PILLION_REFUSED || type == PILLION_DISARMED || type == PILLION_PYTHON;
  if (has_generation && (action & 1) == 0) {
    std::memcpy(packet.data() + sizeof(header), &generation, sizeof(generation));
  }
  return packet;
}

void act(Session& session, std::uint8_t action, int& answers) {
  const auto answered = [&answers](const auto&) { ++answers; };
  switch (action & 7) {
    case 1: {
      ArmConfig config;
      config.settings.events_rings = config.settings.stacks_rings = config.module_slots = 1;
      config.settings.events_ring_bytes = config.settings.stacks_ring_bytes = 4'096;
      config.arena_data_bytes = 4'096;
      (void)session.arm(config);
      break;
    }
    case 2:
      session.disarm(true, std::chrono::milliseconds(action & 8));
      break;
    case 3:
      session.flush(true, std::chrono::seconds(60), answered);
      --answers;
      break;
    case 4:
      session.get_file(action, std::chrono::seconds(60), answered);
      --answers;
      break;
    case 5:
      session.request_maps(action);
      break;
    case 6:
      session.query();
      break;
    case 7:
      (void)session.keep_armed();
      break;
    default:
      break;
  }
}

void run(std::span<const std::uint8_t> input, int& answers) {
  auto loop = EventLoop::create();
  if (!loop) std::abort();
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) std::abort();
  UniqueFd shim(ends[1]);
  static const UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  Observer observer;
  const auto budget = std::make_shared<RingBudget>();
  {
    Session session(**loop, observer, budget, SessionOptions{}, 1, "fuzz");
    session.adopt(UniqueFd(ends[0]));
    while (input.size() >= 3) {
      std::uint16_t length = 0;
      std::memcpy(&length, input.data(), 2);
      const std::uint8_t action = input[2];
      input = input.subspan(3);
      const auto bytes = input.first(std::min<std::size_t>(length, input.size()));
      input = input.subspan(bytes.size());
      act(session, action, answers);
      const auto packet = packet_of(action, bytes, session.generation());
      const std::array fds{file.get(), shim.get()};
      (void)send_packet(shim.get(), packet, std::span(fds).first(action % 3));
      (void)(*loop)->run_once(std::chrono::nanoseconds(0));
      std::array<std::byte, 4'096>
          unread;  // what the session sent; its fds go unread and are closed by the kernel
      while (::recv(shim.get(), unread.data(), unread.size(), MSG_DONTWAIT) > 0) {
      }
      if (session.state() == SessionState::gone) break;
    }
    shim.reset();
    for (int i = 0; i < 100 && observer.gone_count == 0; ++i)
      (void)(*loop)->run_once(std::chrono::milliseconds(1));
    if (observer.gone_count != 1) std::abort();
  }
  if (budget->sessions() != 0) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  int answers = 0;
  run({data, size}, answers);
  if (answers != 0) std::abort();  // every question was answered once
  return 0;
}
