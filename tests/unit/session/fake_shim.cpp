// SPDX-License-Identifier: Apache-2.0
#include "fake_shim.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>

#include "base/clock.h"

namespace pillion::session {
namespace {

constexpr int kPatienceMs = 10'000;

void wait_readable(int fd) {
  pollfd waiting{fd, POLLIN, 0};
  REQUIRE(::poll(&waiting, 1, kPatienceMs) == 1);
}

}  // namespace

FakeShim::FakeShim() {
  std::string name = std::filesystem::temp_directory_path() / "pillion-test-XXXXXX";
  directory_ = ::mkdtemp(name.data());
  path_ = directory_ + "/pillion-1-2-3.sock";
  listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
  REQUIRE(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  REQUIRE(::listen(listener_.get(), 1) == 0);
}

FakeShim::~FakeShim() { std::filesystem::remove_all(directory_); }

void FakeShim::accept() {
  wait_readable(listener_.get());
  peer_.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(peer_.valid());
}

bool FakeShim::somebody_waits() const {
  pollfd waiting{listener_.get(), POLLIN, 0};
  return ::poll(&waiting, 1, 0) == 1;
}

void FakeShim::send_bytes(std::span<const std::byte> bytes, std::span<const int> fds) const {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::byte control[CMSG_SPACE(64 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  REQUIRE(::sendmsg(peer_.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
}

void FakeShim::send_text_piece(std::uint32_t generation, std::uint32_t index, bool last,
                               const std::string& text) const {
  auto head = make_message<pillion_maps>(PILLION_MAPS);
  head.header.size = static_cast<std::uint32_t>(sizeof(head) + text.size());
  head.generation = generation;
  head.index = index;
  head.last = last ? 1 : 0;
  head.bytes = static_cast<std::uint32_t>(text.size());
  std::vector<std::byte> bytes(head.header.size);
  std::memcpy(bytes.data(), &head, sizeof(head));
  std::memcpy(bytes.data() + sizeof(head), text.data(), text.size());
  send_bytes(bytes);
}

Got FakeShim::receive() const {
  wait_readable(peer_.get());
  PacketReader reader;
  Packet packet;
  REQUIRE(reader.receive(peer_.get(), packet) == PacketReader::Outcome::packet);
  REQUIRE(packet.bytes.size() >= sizeof(pillion_message_header));
  pillion_message_header header;
  std::memcpy(&header, packet.bytes.data(), sizeof(header));
  CHECK(header.magic == PILLION_ABI_MAGIC);
  CHECK(header.size == packet.bytes.size());
  return {header.type, {packet.bytes.begin(), packet.bytes.end()}, std::move(packet.fds)};
}

Got FakeShim::receive(std::uint32_t type) const {
  while (true) {
    Got got = receive();
    if (got.type == type) return got;
  }
}

pillion_hello good_hello() {
  auto hello = make_message<pillion_hello>(PILLION_HELLO);
  hello.pid = 2;
  hello.uid = ::geteuid();
  hello.pid_namespace = 1;
  hello.start_time = 3;
  hello.flags = PILLION_HELLO_CONTEXT;
  std::memcpy(hello.comm, "train", 6);
  std::memcpy(hello.exe, "/usr/bin/train", 15);
  return hello;
}

ArmConfig small_config() {
  ArmConfig config;
  config.settings.events_rings = 2;
  config.settings.events_ring_bytes = 16u << 10;
  config.settings.stacks_rings = 2;
  config.settings.stacks_ring_bytes = 64u << 10;
  config.module_slots = 4;
  config.arena_data_bytes = 64u << 10;
  return config;
}

Pair::Pair(SessionOptions options) {
  loop = std::move(*EventLoop::create());
  session = std::make_unique<Session>(*loop, told, budget, std::move(options), 1, shim.path());
}

void Pair::run_until(const std::function<bool()>& condition) const {
  const std::uint64_t end = monotonic_ns() + 10'000'000'000;
  while (!condition() && monotonic_ns() < end) (void)loop->run_once(std::chrono::milliseconds(100));
  REQUIRE(condition());
}

void Pair::connect() {
  session->connect();
  shim.accept();
}

void Pair::greet() {
  connect();
  shim.send(good_hello());
  run_until([&] { return session->state() == SessionState::connected; });
}

void Pair::arm(const ArmConfig& config) {
  REQUIRE(session->arm(config).has_value());
  const auto request = shim.receive(PILLION_ARM).as<pillion_arm>();
  auto answer = make_message<pillion_armed>(PILLION_ARMED);
  answer.generation = request.generation;
  shim.send(answer);
  run_until([&] { return session->state() == SessionState::armed; });
}

const Gone& Pair::run_until_gone() const {
  run_until([&] { return !told.gone.empty(); });
  CHECK(session->state() == SessionState::gone);
  CHECK(told.gone.size() == 1);
  return told.gone.front();
}

}  // namespace pillion::session
