// SPDX-License-Identifier: Apache-2.0
// What a session does with each message of its shim.
#include <fcntl.h>
#include <sys/stat.h>

#include <type_traits>

#include "session/session.h"

namespace pillion::session {
namespace {

// A pipe or a device would make whoever reads it wait for the workload.
bool is_readable_file(int fd) {
  struct stat status {};
  const int flags = ::fcntl(fd, F_GETFL);
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && flags >= 0 && (flags & O_PATH) == 0 &&
         (flags & O_ACCMODE) != O_WRONLY;
}

}  // namespace

void Session::handle(Packet packet) {
  if (packet.cut)
    return leave({GoneReason::protocol, "packet over " + std::to_string(PILLION_MESSAGE_MAX) + " bytes"});
  auto message = parse_message(packet.bytes);
  if (!message) return leave({GoneReason::protocol, message.error().message()});
  ++counters_.messages;
  if (packet.fds_cut) ++counters_.surplus_fds;
  const bool first_may_be =
      std::holds_alternative<Hello>(*message) || std::holds_alternative<Busy>(*message) ||
      std::holds_alternative<Refused>(*message) || std::holds_alternative<OtherMajor>(*message);
  if (!hello_ && !first_may_be) return leave({GoneReason::protocol, "the first message is not HELLO"});
  std::visit(
      [&](auto&& part) {
        if constexpr (std::is_same_v<std::decay_t<decltype(part)>, FileReply>) {
          handle(std::move(part), packet.fds);
        } else {
          handle(std::move(part));
        }
      },
      std::move(*message));
  counters_.surplus_fds += packet.fds.size();
}

void Session::handle(Hello hello) {
  const bool first = !hello_;
  hello_ = std::move(hello);
  if (first) set_state(SessionState::connected);
  observer_.on_hello(*this, *hello_);
}

void Session::handle(Busy busy) {
  if (hello_) {
    ++counters_.unexpected_messages;
    return;
  }
  const std::string holder =
      busy.holder_pid != 0 ? "pid " + std::to_string(busy.holder_pid) : "a process of another PID namespace";
  leave({GoneReason::busy, "another sidecar is connected: " + holder, 0, busy.holder_pid});
}

void Session::handle(OtherMajor version) {
  leave({GoneReason::version, "the shim speaks version " + version_name(version.major, version.minor) +
                                  " of the wire, this pillion " +
                                  version_name(PILLION_ABI_MAJOR, PILLION_ABI_MINOR) +
                                  ": install the shim of this version"});
}

void Session::handle(Refused refused) {
  if (!hello_ || refused.reason == PILLION_REFUSAL_VERSION || refused.reason == PILLION_REFUSAL_ACCESS) {
    const auto reason = refused.reason == PILLION_REFUSAL_VERSION ? GoneReason::version : GoneReason::refused;
    return leave({reason, refusal_name(refused.reason) + ": " + refused.text});
  }
  // Generation 0: the shim could not read our ARM.
  const bool ours = refused.generation == generation_ || refused.generation == 0;
  if (state_ != SessionState::arming || !ours) {
    ++counters_.unexpected_messages;
    return;
  }
  set_state(SessionState::connected);
  memory_.reset();
  observer_.on_refused(*this, refused);
}

void Session::handle(Armed armed) {
  if (state_ != SessionState::arming || armed.generation != generation_) {
    ++counters_.unexpected_messages;
    return;
  }
  set_state(SessionState::armed);
  observer_.on_armed(*this, armed);
}

void Session::handle(Disarmed disarmed) {
  const bool may_come =
      state_ == SessionState::arming || state_ == SessionState::armed || state_ == SessionState::draining;
  if (!may_come || disarmed.generation != generation_) {
    ++counters_.unexpected_messages;
    return;
  }
  set_state(SessionState::connected);
  flushes_.fail_all("disarmed");
  observer_.on_disarmed(*this, disarmed);
}

void Session::handle(Flushed flushed) {
  if (!flushes_.complete(flushed.token, flushed)) ++counters_.unexpected_messages;
}

void Session::handle(MapsPiece piece) {
  switch (maps_.add(std::move(piece))) {
    case MapsAssembly::Outcome::incomplete:
      return;
    case MapsAssembly::Outcome::repeated:
      ++counters_.maps_repeated;
      return;
    case MapsAssembly::Outcome::too_large:
      ++counters_.maps_too_large;
      return;
    case MapsAssembly::Outcome::broken:
      ++counters_.maps_broken;
      if (maps_timer_ == 0) {
        maps_timer_ = loop_.after(options_.maps_again, [this] {
          maps_timer_ = 0;
          request_maps(0);
        });
      }
      return;
    case MapsAssembly::Outcome::complete:
      break;
  }
  if (auto maps = maps_.take()) observer_.on_maps(*this, std::move(*maps));
}

void Session::handle(FileReply reply, std::vector<UniqueFd>& fds) {
  Result<ReceivedFile> result;
  if (reply.error != 0) {
    result = tl::make_unexpected(Error{"get file", path_, static_cast<int>(reply.error & 0xfff), {}});
  } else if (fds.empty()) {
    result = fail("get file", path_, "the shim sent no file");
  } else if (!is_readable_file(fds.front().get())) {
    result = fail("get file", path_, "the shim sent something else than a regular file");
  } else {
    result = ReceivedFile{std::move(fds.front()), (reply.flags & PILLION_FILE_OTHER_INODE) != 0};
    fds.erase(fds.begin());
  }
  if (!files_.complete(reply.request, std::move(result))) ++counters_.unexpected_messages;
}

// One of a session that is over by now says nothing about this one.
void Session::handle(Python python) {
  if (python.generation != 0 && python.generation != generation_) {
    ++counters_.unexpected_messages;
    return;
  }
  python_ = std::move(python);
  observer_.on_python(*this, *python_);
}

void Session::handle(UnknownMessage) { ++counters_.unknown_messages; }

}  // namespace pillion::session
