// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace pillion::http {

struct ConnectionLimits {
  std::size_t connections = 512;                 // at the same time; past it the longest idle one is closed
  std::size_t head_bytes = 64 << 10;             // request line and headers
  std::chrono::milliseconds head_time{5'000};    // from a head's first byte to its last
  std::chrono::milliseconds idle_time{60'000};   // between requests, and before the first
  std::chrono::milliseconds linger_time{1'000};  // after the answer, for the client to close its side
  std::chrono::milliseconds stop_time{1'000};    // for requests under way when stop() is called
};

// One client. Owned by Connections; while a request is served the worker alone touches `input`.
struct Connection {
  enum class State : std::uint8_t { reading, serving, lingering };

  UniqueFd fd;  // non-blocking
  State state = State::reading;
  std::string input;                            // bytes received and not yet consumed
  std::size_t head_size = 0;                    // while serving: how much of `input` is the request's head
  std::stop_source hung_up;                     // of the request being served
  std::chrono::steady_clock::time_point since;  // when the state, or the head being read, began
};

// Accepts connections, collects request heads, and notices hang-ups, all on one thread with epoll: a
// connection that is idle, slow or malicious costs a descriptor and never a worker. cpp-httplib's own loop
// keeps a thread for each connection and does not look at the socket while a handler runs.
class Connections {
 public:
  // Called on the thread of Connections with a complete head in `input`; must not block. The connection comes
  // back through give_back().
  using Dispatch = std::function<void(Connection&)>;

  static Result<std::unique_ptr<Connections>> create(UniqueFd listener, ConnectionLimits limits,
                                                     Dispatch dispatch);

  // Starts the thread: from here on `dispatch` is called.
  void start();
  ~Connections();

  // From any thread: the request is answered. `keep`: the client may send another.
  void give_back(Connection& connection, bool keep);

  // Requests under way are told to stop; returns when all have been given back. No connection is left then.
  void stop();

  [[nodiscard]] std::size_t open() const { return open_.load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;

  Connections(UniqueFd listener, ConnectionLimits limits, Dispatch dispatch);

  void run();
  void handle(int fd, std::uint32_t events);
  void accept_all();
  [[nodiscard]] bool make_room();
  void receive(Connection& connection);
  void discard(Connection& connection);
  void look_for_head(Connection& connection, std::size_t searched);
  void refuse(Connection& connection, const std::string& response);
  void take_back();
  void linger(Connection& connection);
  void sweep();
  void stop_all();
  void close(Connection& connection);
  [[nodiscard]] bool watch(Connection& connection, std::uint32_t events, int operation);

  const ConnectionLimits limits_;
  const Dispatch dispatch_;
  UniqueFd listener_;
  UniqueFd epoll_;
  UniqueFd wake_;  // eventfd

  // The thread's own.
  std::unordered_map<int, std::unique_ptr<Connection>> connections_;
  bool stopping_ = false;
  bool shut_down_ = false;
  Clock::time_point stop_deadline_;

  std::atomic<std::size_t> open_{0};
  std::atomic<bool> stop_requested_{false};
  std::mutex mutex_;
  std::vector<std::pair<Connection*, bool>> returned_;  // under mutex_

  std::thread thread_;  // last: uses all of the above
};

}  // namespace pillion::http
