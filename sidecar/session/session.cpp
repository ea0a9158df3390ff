// SPDX-License-Identifier: Apache-2.0
#include "session/session.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/clock.h"

namespace pillion::session {
namespace {

constexpr std::chrono::milliseconds kConnectAgain{50};
constexpr int kPacketsPerRound = 16;  // one peer that floods leaves the loop to the others

// Grows with every session, across sidecars too: a new one begins where the clock is.
std::uint64_t next_generation() {
  static std::atomic<std::uint64_t> last{0};
  std::uint64_t before = last.load();
  std::uint64_t next = 0;
  do {
    next = std::max(before + 1, monotonic_ns());
  } while (!last.compare_exchange_weak(before, next));
  return next;
}

}  // namespace

const char* state_name(SessionState state) {
  switch (state) {
    case SessionState::connecting:
      return "connecting";
    case SessionState::connected:
      return "connected";
    case SessionState::arming:
      return "arming";
    case SessionState::armed:
      return "armed";
    case SessionState::draining:
      return "draining";
    case SessionState::gone:
      return "gone";
  }
  return "?";
}

const char* gone_name(GoneReason reason) {
  switch (reason) {
    case GoneReason::closed:
      return "closed";
    case GoneReason::stale:
      return "stale";
    case GoneReason::unaccepted:
      return "unaccepted";
    case GoneReason::busy:
      return "busy";
    case GoneReason::version:
      return "version";
    case GoneReason::refused:
      return "refused";
    case GoneReason::protocol:
      return "protocol";
    case GoneReason::timeout:
      return "timeout";
    case GoneReason::failed:
      return "failed";
  }
  return "?";
}

Session::Session(EventLoop& loop, SessionObserver& observer, std::shared_ptr<RingBudget> budget,
                 SessionOptions options, TargetId target, std::string path)
    : loop_(loop),
      observer_(observer),
      budget_(std::move(budget)),
      options_(std::move(options)),
      target_(target),
      path_(std::move(path)),
      flushes_(loop, "flush"),
      files_(loop, "get file"),
      file_channel_(std::make_shared<FileChannel>(loop, this)) {}

Session::~Session() {
  file_channel_->end();
  if (socket_.valid()) loop_.unwatch(socket_.get());
  for (const auto timer :
       {connect_timer_, deadline_timer_, renew_timer_, linger_timer_, maps_timer_, gone_timer_}) {
    loop_.cancel(timer);
  }
}

RingGeometry ArmConfig::geometry() const {
  return {settings.events_rings, settings.events_ring_bytes,
          settings.stacks_rings, settings.stacks_ring_bytes,
          module_slots,          arena_data_bytes};
}

void Session::connect() {
  connect_until_ns_ =
      monotonic_ns() + static_cast<std::uint64_t>(std::chrono::nanoseconds(options_.hello_timeout).count());
  try_connect();
}

void Session::try_connect() {
  connect_timer_ = 0;
  auto socket = connect_to(path_);
  if (socket) {
    begin(std::move(*socket));
    return;
  }
  const Error& error = socket.error();
  switch (error.number) {
    case ECONNREFUSED:
    case ENOENT:
      leave({GoneReason::stale, error.message()});
      return;
    case EAGAIN:  // the shim's backlog is full: connect to a unix socket never says EINPROGRESS
      if (monotonic_ns() < connect_until_ns_) {
        connect_timer_ = loop_.after(kConnectAgain, [this] { try_connect(); });
      } else {
        leave({GoneReason::timeout, error.message()});
      }
      return;
    default:
      leave({GoneReason::failed, error.message()});
      return;
  }
}

void Session::adopt(UniqueFd socket) { begin(std::move(socket)); }

void Session::begin(UniqueFd socket) {
  socket_ = std::move(socket);
  const auto peer = peer_credentials(socket_.get());
  if (!peer) return leave({GoneReason::failed, peer.error().message()});
  peer_ = *peer;
  const auto& allowed = options_.allowed_uids;
  if (peer_.uid != options_.own_uid &&
      std::find(allowed.begin(), allowed.end(), peer_.uid) == allowed.end()) {
    return leave({GoneReason::unaccepted,
                  "shim " + path_ + " belongs to uid " + std::to_string(peer_.uid) + ", this is uid " +
                      std::to_string(options_.own_uid) + ": allow it with -allow-uid " +
                      std::to_string(peer_.uid),
                  peer_.uid});
  }
  auto watched = loop_.watch(socket_.get(), EPOLLIN, [this](std::uint32_t events) { on_socket(events); });
  if (!watched) return leave({GoneReason::failed, watched.error().message()});
  set_deadline(options_.hello_timeout, "HELLO");
}

void Session::on_socket(std::uint32_t epoll_events) {
  if ((epoll_events & EPOLLOUT) != 0) write_packets();
  if ((epoll_events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) read_packets();
}

void Session::read_packets() {
  for (int i = 0; i < kPacketsPerRound && state_ != SessionState::gone; ++i) {
    Packet packet;
    switch (reader_.receive(socket_.get(), packet)) {
      case PacketReader::Outcome::nothing:
        return;
      case PacketReader::Outcome::end:
        return leave({GoneReason::closed, "the shim closed the connection"});
      case PacketReader::Outcome::packet:
        handle(std::move(packet));
        break;
    }
  }
}

Result<void> Session::arm(const ArmConfig& config) {
  if (state_ != SessionState::connected) return fail("arm", path_, std::string("is ") + state_name(state_));
  memory_.reset();
  auto memory = RingMemory::create(config.geometry(), next_generation(), budget_);
  if (!memory) return tl::make_unexpected(memory.error());
  auto message = make_message<pillion_arm>(PILLION_ARM);
  message.generation = (*memory)->generation();
  const auto& settings = config.settings;
  message.lease_ms = settings.lease_ms;
  message.kinds = settings.kinds;
  message.sample_permyriad = settings.sample_permyriad;
  message.sample_mib_per_s = settings.sample_mib_per_s;
  message.stack_bytes_max = settings.stack_bytes_max;
  message.detach = settings.finalize ? PILLION_DISARM_FINALIZE : 0;
  message.deadline_ms = config.deadline_ms;
  const auto sizes = (*memory)->sizes();
  message.events_bytes = sizes[0];
  message.stacks_bytes = sizes[1];
  message.arena_bytes = sizes[2];
  if (!send(message, *memory)) return fail("arm", path_, "the shim does not read its socket");
  memory_ = std::move(*memory);
  generation_ = message.generation;
  set_state(SessionState::arming);
  set_deadline(std::chrono::milliseconds(config.deadline_ms) + options_.answer_timeout, "ARMED");
  renew_timer_ = loop_.every(options_.renew_every, [this] { renew(); });
  return {};
}

void Session::renew() {
  if (!outgoing_.empty()) {  // it gets older messages when it reads again, and each of them renews
    ++counters_.renewals_skipped;
    return;
  }
  auto message = make_message<pillion_renew>(PILLION_RENEW);
  message.generation = generation_;
  (void)send(message);
}

void Session::disarm(bool finalize, std::chrono::milliseconds linger) {
  if (state_ != SessionState::arming && state_ != SessionState::armed) return;
  lingering_ = finalize;
  loop_.cancel(linger_timer_);
  linger_timer_ = 0;
  if (linger.count() <= 0) return send_disarm();
  linger_timer_ = loop_.after(linger, [this] {
    linger_timer_ = 0;
    send_disarm();
  });
}

void Session::send_disarm() {
  auto message = make_message<pillion_disarm>(PILLION_DISARM);
  message.generation = generation_;
  message.flags = lingering_.value_or(false) ? PILLION_DISARM_FINALIZE : 0;
  set_state(SessionState::draining);
  set_deadline(options_.answer_timeout, "DISARMED");
  (void)send(message);  // unsent, the deadline ends the session, and its EOF disarms
}

bool Session::keep_armed() {
  if (state_ != SessionState::arming && state_ != SessionState::armed) return false;
  loop_.cancel(linger_timer_);
  linger_timer_ = 0;
  lingering_.reset();
  return true;
}

void Session::flush(bool forced, std::chrono::milliseconds deadline,
                    std::function<void(Result<Flushed>)> done) {
  if (state_ != SessionState::armed)
    return done(fail("flush", path_, std::string("is ") + state_name(state_)));
  if (flushes_.size() >= kFlushesMax) return done(fail("flush", path_, "too many at once"));
  auto message = make_message<pillion_flush>(PILLION_FLUSH);
  message.token = flushes_.add(deadline, std::move(done));
  message.forced = forced ? 1 : 0;
  if (!send(message)) (void)flushes_.complete(message.token, fail("flush", path_, "cannot be sent"));
}

void Session::get_file(std::uint64_t mapping_start, std::chrono::milliseconds deadline,
                       std::function<void(Result<ReceivedFile>)> done) {
  if (!hello_ || state_ == SessionState::gone) {
    return done(fail("get file", path_, std::string("is ") + state_name(state_)));
  }
  if (files_.size() >= kFilesMax) return done(fail("get file", path_, "too many at once"));
  auto message = make_message<pillion_get_file>(PILLION_GET_FILE);
  message.request = files_.add(deadline, std::move(done));
  message.start = mapping_start;
  if (!send(message)) (void)files_.complete(message.request, fail("get file", path_, "cannot be sent"));
}

void Session::request_maps(std::uint32_t known_generation) {
  auto message = make_message<pillion_get_maps>(PILLION_GET_MAPS);
  message.known_generation = known_generation;
  (void)send(message);
}

void Session::start_program() { (void)send(make_message<pillion_start>(PILLION_START)); }

void Session::query() { (void)send(make_message<pillion_query>(PILLION_QUERY)); }

template <typename Wire>
bool Session::send(const Wire& message, std::shared_ptr<RingMemory> memory) {
  Outgoing packet{std::vector<std::byte>(sizeof(message)), std::move(memory)};
  std::memcpy(packet.bytes.data(), &message, sizeof(message));
  return send_bytes(std::move(packet));
}

bool Session::send_bytes(Outgoing packet) {
  if (!socket_.valid() || outgoing_.size() >= kOutgoingMax) return false;
  outgoing_.push_back(std::move(packet));
  if (outgoing_.size() == 1) write_packets();
  return true;
}

void Session::write_packets() {
  while (!outgoing_.empty()) {
    const Outgoing& packet = outgoing_.front();
    std::array<int, 3> fds{};
    if (packet.memory) fds = packet.memory->fds();
    const auto sent = send_packet(socket_.get(), packet.bytes, std::span(fds).first(packet.memory ? 3 : 0));
    if (!sent && sent.error().number == EAGAIN) break;
    // Any other failure means that the peer has gone: the end comes by the reading side, after what it still
    // said.
    outgoing_.pop_front();
  }
  (void)loop_.modify(socket_.get(),
                     EPOLLIN | (outgoing_.empty() ? 0u : static_cast<std::uint32_t>(EPOLLOUT)));
}

void Session::set_state(SessionState state) {
  state_ = state;
  loop_.cancel(deadline_timer_);
  deadline_timer_ = 0;
  if (state == SessionState::arming || state == SessionState::armed) return;
  loop_.cancel(linger_timer_);
  linger_timer_ = 0;
  lingering_.reset();
  if (state == SessionState::draining) return;
  loop_.cancel(renew_timer_);
  renew_timer_ = 0;
}

void Session::set_deadline(std::chrono::milliseconds deadline, const char* awaited) {
  loop_.cancel(deadline_timer_);
  deadline_timer_ = loop_.after(deadline, [this, awaited] { on_deadline(awaited); });
}

void Session::on_deadline(const char* awaited) {
  deadline_timer_ = 0;
  const SessionState before = state_;
  // Where it was this process that stood still, the answer is there.
  read_packets();
  if (state_ != before) return;
  leave({GoneReason::timeout,
         std::string("no ") + awaited + " from the shim in time: is the process stopped?"});
}

void Session::leave(Gone gone) {
  if (state_ == SessionState::gone) return;
  set_state(SessionState::gone);
  if (socket_.valid()) {
    loop_.unwatch(socket_.get());
    socket_.reset();
  }
  outgoing_.clear();
  loop_.cancel(connect_timer_);
  loop_.cancel(maps_timer_);
  // From an own stack, so that the observer may destroy the session.
  gone_timer_ = loop_.after(std::chrono::nanoseconds(0), [this, gone = std::move(gone)] {
    gone_timer_ = 0;
    flushes_.fail_all("session ended");
    files_.fail_all("session ended");
    observer_.on_gone(*this, gone);
  });
}

}  // namespace pillion::session
