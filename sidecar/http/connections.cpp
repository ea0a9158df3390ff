// SPDX-License-Identifier: Apache-2.0
#include "http/connections.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "base/log.h"
#include "http/raw_response.h"

namespace pillion::http {
namespace {

constexpr int kTickMs = 100;
constexpr std::chrono::milliseconds kNoDescriptorPause{10};
constexpr std::size_t kReceiveBytes = 16 << 10;
constexpr std::size_t kReceivesPerTurn = 16;  // so that one fast sender cannot hold up the others
constexpr std::uint32_t kReadEvents = EPOLLIN | EPOLLRDHUP;
// One shot: after the hang-up was noted, a level-triggered EPOLLRDHUP would spin.
constexpr std::uint32_t kHangUpEvents = EPOLLRDHUP | EPOLLONESHOT;

}  // namespace

Connections::Connections(UniqueFd listener, ConnectionLimits limits, Dispatch dispatch)
    : limits_(limits), dispatch_(std::move(dispatch)), listener_(std::move(listener)) {}

Result<std::unique_ptr<Connections>> Connections::create(UniqueFd listener, ConnectionLimits limits,
                                                         Dispatch dispatch) {
  std::unique_ptr<Connections> made(new Connections(std::move(listener), limits, std::move(dispatch)));
  made->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  made->wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made->epoll_.valid() || !made->wake_.valid()) return fail_errno("create", "epoll set");
  for (const int fd : {made->listener_.get(), made->wake_.get()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (::epoll_ctl(made->epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      return fail_errno("epoll_ctl", "listener");
  }
  return made;
}

void Connections::start() {
  thread_ = std::thread([this] { run(); });
}

Connections::~Connections() { stop(); }

void Connections::give_back(Connection& connection, bool keep) {
  {
    const std::lock_guard lock(mutex_);
    returned_.emplace_back(&connection, keep);
  }
  ::eventfd_write(wake_.get(), 1);
}

void Connections::stop() {
  if (!thread_.joinable()) return;
  stop_requested_.store(true, std::memory_order_release);
  ::eventfd_write(wake_.get(), 1);
  thread_.join();
}

void Connections::run() {
  std::array<epoll_event, 64> events{};
  auto next_sweep = Clock::now();
  while (!stopping_ || !connections_.empty()) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), kTickMs);
    for (int i = 0; i < count; ++i) handle(events[i].data.fd, events[i].events);
    take_back();
    if (stop_requested_.load(std::memory_order_acquire)) stop_all();
    if (Clock::now() >= next_sweep) {
      sweep();
      next_sweep = Clock::now() + std::chrono::milliseconds(kTickMs);
    }
  }
}

void Connections::handle(int fd, std::uint32_t events) {
  if (fd == wake_.get()) {
    eventfd_t value = 0;
    ::eventfd_read(fd, &value);
    return;
  }
  if (fd == listener_.get()) return accept_all();
  const auto found = connections_.find(fd);
  if (found == connections_.end()) return;
  auto& connection = *found->second;
  switch (connection.state) {
    case Connection::State::reading:
      return receive(connection);
    case Connection::State::lingering:
      return discard(connection);
    case Connection::State::serving:
      // EOF on the client's side counts as a hang-up, as in Go's net/http: a client that only half-closes
      // cannot be told from one that is gone.
      if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) connection.hung_up.request_stop();
      return;
  }
}

void Connections::accept_all() {
  while (listener_.valid()) {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EMFILE || errno == ENFILE) {
        log_once(LogLevel::warning, "http_descriptors",
                 "HTTP: out of file descriptors, closing idle connections");
        // Nobody to send away: the listener stays readable, and without a pause this would spin.
        if (!make_room()) std::this_thread::sleep_for(kNoDescriptorPause);
      }
      return;
    }
    auto made = std::make_unique<Connection>();
    made->fd.reset(fd);
    made->since = Clock::now();
    if (!watch(*made, kReadEvents, EPOLL_CTL_ADD)) continue;
    connections_.emplace(fd, std::move(made));
    open_.store(connections_.size(), std::memory_order_relaxed);
    if (connections_.size() > limits_.connections) (void)make_room();
  }
}

// Closes the connection that has waited longest; one that is being served is never taken.
bool Connections::make_room() {
  Connection* oldest = nullptr;
  for (const auto& [fd, connection] : connections_) {
    if (connection->state == Connection::State::serving) continue;
    if (oldest == nullptr || connection->since < oldest->since) oldest = connection.get();
  }
  if (oldest == nullptr) return false;
  close(*oldest);
  return true;
}

void Connections::receive(Connection& connection) {
  std::array<char, kReceiveBytes> buffer;
  for (std::size_t turn = 0; turn < kReceivesPerTurn; ++turn) {
    const auto got = ::recv(connection.fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return close(connection);
    if (connection.input.empty()) connection.since = Clock::now();
    const auto searched = connection.input.size();
    connection.input.append(buffer.data(), static_cast<std::size_t>(got));
    look_for_head(connection, searched);
    if (connection.state != Connection::State::reading) return;
  }
}

// `searched`: no end of a head begins in the first `searched` - 3 bytes.
void Connections::look_for_head(Connection& connection, std::size_t searched) {
  const auto end = connection.input.find("\r\n\r\n", searched < 3 ? 0 : searched - 3);
  const bool complete = end != std::string::npos;
  if ((complete ? end : connection.input.size()) > limits_.head_bytes) {
    return refuse(connection, raw_error_response({ErrorCode::header_too_large,
                                                  "the request's head is longer than " +
                                                      std::to_string(limits_.head_bytes) + " bytes",
                                                  "send fewer headers"}));
  }
  if (!complete) return;
  connection.head_size = end + 4;
  connection.state = Connection::State::serving;
  connection.hung_up = std::stop_source();
  if (!watch(connection, kHangUpEvents, EPOLL_CTL_MOD)) return close(connection);
  dispatch_(connection);
}

void Connections::refuse(Connection& connection, const std::string& response) {
  // A fresh socket's buffer takes these few bytes; a client that does not read them has only itself to blame.
  (void)!::send(connection.fd.get(), response.data(), response.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  linger(connection);
}

void Connections::take_back() {
  std::vector<std::pair<Connection*, bool>> returned;
  {
    const std::lock_guard lock(mutex_);
    returned.swap(returned_);
  }
  for (const auto& [connection, keep] : returned) {
    connection->input.erase(0, connection->head_size);
    connection->head_size = 0;
    connection->since = Clock::now();
    if (stopping_) {
      close(*connection);
    } else if (!keep) {
      linger(*connection);
    } else if (connection->state = Connection::State::reading;
               !watch(*connection, kReadEvents, EPOLL_CTL_MOD)) {
      close(*connection);
    } else if (!connection->input.empty()) {
      look_for_head(*connection, 0);
    }
  }
}

// Closing while the client still sends would reset the connection and could take the answer with it.
void Connections::linger(Connection& connection) {
  connection.state = Connection::State::lingering;
  connection.input.clear();
  connection.since = Clock::now();
  ::shutdown(connection.fd.get(), SHUT_WR);
  if (!watch(connection, kReadEvents, EPOLL_CTL_MOD)) close(connection);
}

void Connections::discard(Connection& connection) {
  std::array<char, kReceiveBytes> buffer;
  for (std::size_t turn = 0; turn < kReceivesPerTurn; ++turn) {
    const auto got = ::recv(connection.fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return close(connection);
  }
}

void Connections::sweep() {
  const auto now = Clock::now();
  std::vector<Connection*> slow;
  std::vector<Connection*> finished;
  for (const auto& [fd, connection] : connections_) {
    const auto age = now - connection->since;
    if (connection->state == Connection::State::lingering) {
      if (age > limits_.linger_time) finished.push_back(connection.get());
    } else if (connection->state == Connection::State::reading) {
      const bool idle = connection->input.empty();
      if (idle && age > limits_.idle_time) finished.push_back(connection.get());
      if (!idle && age > limits_.head_time) slow.push_back(connection.get());
    }
  }
  for (auto* connection : finished) close(*connection);
  for (auto* connection : slow) {
    refuse(*connection,
           raw_error_response({ErrorCode::request_timeout, "the request's head did not come in time",
                               "it ends with an empty line"}));
  }
}

void Connections::stop_all() {
  if (!stopping_) {
    stopping_ = true;
    stop_deadline_ = Clock::now() + limits_.stop_time;
    listener_.reset();
    std::vector<Connection*> waiting;
    for (const auto& [fd, connection] : connections_) {
      if (connection->state == Connection::State::serving) {
        connection->hung_up.request_stop();
      } else {
        waiting.push_back(connection.get());
      }
    }
    for (auto* connection : waiting) close(*connection);
  }
  if (!shut_down_ && Clock::now() > stop_deadline_) {
    shut_down_ = true;  // whoever still writes to a slow reader fails now
    for (const auto& [fd, connection] : connections_) ::shutdown(fd, SHUT_RDWR);
  }
}

void Connections::close(Connection& connection) {
  connections_.erase(connection.fd.get());  // closing the descriptor takes it out of the epoll set
  open_.store(connections_.size(), std::memory_order_relaxed);
}

bool Connections::watch(Connection& connection, std::uint32_t events, int operation) {
  epoll_event event{};
  event.events = events;
  event.data.fd = connection.fd.get();
  return ::epoll_ctl(epoll_.get(), operation, connection.fd.get(), &event) == 0;
}

}  // namespace pillion::http
