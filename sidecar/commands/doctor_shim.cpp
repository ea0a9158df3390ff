// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <variant>

#include "commands/doctor_rows.h"
#include "discovery/shim_address.h"
#include "session/messages.h"
#include "session/peer_socket.h"

namespace pillion::commands {
namespace {

constexpr int kAnswerMs = 500;

// Where the same socket may be seen from here, the likeliest first.
std::vector<std::string> places(const inject::TargetLook& look, const std::string& socket_directory) {
  std::vector<std::string> found;
  const auto& examination = look.examination;
  std::error_code error;
  for (std::filesystem::directory_iterator it(socket_directory, error), end; !error && it != end;
       it.increment(error)) {
    const auto address = discovery::parse_socket_name(socket_directory, it->path().filename().string());
    if (address && address->pid == examination.inner_pid && address->start_time == examination.start_time &&
        (examination.pid_namespace == 0 || address->pid_namespace == examination.pid_namespace))
      found.push_back(address->path);
  }
  if (!examination.resident || examination.resident->socket.empty()) return found;
  const std::string& socket = examination.resident->socket;
  if (socket.front() == '@') {
    found.push_back(socket);
    return found;
  }
  if (examination.own_mount_namespace) found.push_back(socket);
  found.push_back("/proc/" + std::to_string(examination.live_thread) + "/root" + socket);
  return found;
}

ShimAnswer read_answer(int fd, const std::string& socket) {
  ShimAnswer answer{ShimAnswer::State::silent, socket, "it does not answer", 0};
  pollfd wait{fd, POLLIN, 0};
  session::PacketReader reader;
  session::Packet packet;
  if (::poll(&wait, 1, kAnswerMs) <= 0) return answer;
  if (reader.receive(fd, packet) != session::PacketReader::Outcome::packet) {
    answer.text = "it hangs up";
    return answer;
  }
  const auto message = session::parse_message(packet.bytes);
  if (!message) {
    answer.text = message.error().message();
  } else if (std::holds_alternative<session::Hello>(*message)) {
    answer.state = ShimAnswer::State::asleep;
  } else if (const auto* busy = std::get_if<session::Busy>(&*message)) {
    answer.state = ShimAnswer::State::held;
    answer.holder_pid = busy->holder_pid;
    answer.text = "held by " + (busy->holder_pid != 0 ? "process " + std::to_string(busy->holder_pid)
                                                      : std::string("a process of another PID namespace"));
  } else if (const auto* refused = std::get_if<session::Refused>(&*message)) {
    answer.text = session::refusal_name(refused->reason) + " " + refused->text;
  } else if (const auto* other = std::get_if<session::OtherMajor>(&*message)) {
    answer.text = "it speaks version " + session::version_name(other->major, other->minor) + " of the wire";
  }
  return answer;
}

}  // namespace

ShimAnswer ask_shim(const inject::TargetLook& look, const std::string& socket_directory) {
  ShimAnswer answer;
  for (const auto& place : places(look, socket_directory)) {
    const auto connection = session::connect_to(place);
    if (connection) return read_answer(connection->get(), place);
    // What has no listener is a name left behind.
    if (connection.error().number == ECONNREFUSED || connection.error().number == ENOENT) continue;
    answer = {ShimAnswer::State::silent, place, std::strerror(connection.error().number), 0};
  }
  return answer;
}

}  // namespace pillion::commands
