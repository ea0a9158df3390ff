// SPDX-License-Identifier: Apache-2.0
#include "http/exchange.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include <httplib.h>

namespace pillion::http {
namespace {

constexpr std::chrono::seconds kWriteTotal{120};  // for a whole response
constexpr int kWriteStallMs = 10'000;             // without any progress

constexpr std::size_t kKeepAliveCount = 1'000'000;  // only announced: idle_time alone ends a connection

// Reads the head from memory (never the socket: what follows a head is the next request) and writes to the
// socket.
class HeadStream final : public httplib::Stream {
 public:
  explicit HeadStream(Connection& connection)
      : fd_(connection.fd.get()), head_(connection.input.data(), connection.head_size) {}

  bool is_readable() const override { return !head_.empty(); }
  bool is_writable() const override { return true; }

  ssize_t read(char* to, size_t size) override {
    const auto count = std::min(size, head_.size());
    std::memcpy(to, head_.data(), count);
    head_.remove_prefix(count);
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* from, size_t size) override {
    size_t written = 0;
    while (written < size) {
      const auto sent = ::send(fd_, from + written, size - written, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent >= 0) {
        written += static_cast<size_t>(sent);
      } else if (errno != EINTR && (errno != EAGAIN || !wait_writable())) {
        return -1;
      }
    }
    return static_cast<ssize_t>(size);
  }

  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return fd_; }

 private:
  [[nodiscard]] bool wait_writable() {
    const auto now = std::chrono::steady_clock::now();
    if (now - start_ > kWriteTotal) return false;
    pollfd target{fd_, POLLOUT, 0};
    return ::poll(&target, 1, kWriteStallMs) > 0 && (target.revents & POLLOUT) != 0;
  }

  int fd_;
  std::string_view head_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// httplib's own parser drops a parameter that repeats another exactly, which would hide a repetition.
Parameters parse_query(std::string_view target) {
  Parameters parameters;
  const auto question = target.find('?');
  if (question == std::string_view::npos) return parameters;
  auto rest = target.substr(question + 1);
  rest = rest.substr(0, rest.find('#'));
  while (!rest.empty()) {
    const auto pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const auto equals = std::min(pair.find('='), pair.size());
    const auto value = equals == pair.size() ? std::string_view() : pair.substr(equals + 1);
    parameters.emplace_back(httplib::detail::decode_url(std::string(pair.substr(0, equals)), true),
                            httplib::detail::decode_url(std::string(value), true));
  }
  return parameters;
}

// What one request needs beyond httplib's own Request; the handler runs on the thread that set it.
struct Current {
  std::stop_token hung_up;
  WindowSlot slot;
};
thread_local Current* current = nullptr;

// What follows the head of such a request is a body that nobody reads: the connection cannot be kept.
bool may_have_body(const httplib::Request& request) {
  return request.has_header("Transfer-Encoding") ||
         (request.has_header("Content-Length") && request.get_header_value("Content-Length") != "0") ||
         (request.method != "GET" && request.method != "HEAD");
}

void prepare(httplib::Request& request) {
  // Ranges of a profile make no sense, and many small ones would multiply it.
  request.ranges.clear();
  request.headers.erase("Range");
  // httplib would compress with brotli's slowest setting; pprof is gzipped already, and this is loopback.
  request.headers.erase("Accept-Encoding");
  if (may_have_body(request)) {
    request.headers.erase("Connection");
    request.headers.emplace("Connection", "close");
  }
}

}  // namespace

class Exchange::Parser : public httplib::Server {
 public:
  Parser(Router& router, Surface surface) : router_(router), surface_(std::move(surface)) {
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      answer(request, response);
      return HandlerResponse::Handled;
    });
    set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (!response.body.empty()) return;  // the router's; else httplib refused the head
      const auto reply = error_reply({ErrorCode::bad_request, "the request's head cannot be read",
                                      "HTTP/1.0 or 1.1, GET or HEAD; request line and each header at most "
                                      "8192 bytes; a Range only in bytes"});
      response.set_content(reply.body, reply.content_type);
      response.set_header("Connection", "close");
    });
    set_keep_alive_timeout(
        std::chrono::duration_cast<std::chrono::seconds>(ConnectionLimits{}.idle_time).count());
    set_keep_alive_max_count(kKeepAliveCount);
  }

  [[nodiscard]] bool serve(Connection& connection) {
    Current exchange{connection.hung_up.get_token(), {}};
    current = &exchange;
    HeadStream stream(connection);
    bool closed = false;
    bool body_may_follow = true;  // until the head was read
    const bool answered = process_request(stream, false, closed, [&](httplib::Request& request) {
      body_may_follow = may_have_body(request);
      prepare(request);
    });
    current = nullptr;
    return answered && !closed && !body_may_follow;
  }

 private:
  void answer(const httplib::Request& from, httplib::Response& to) {
    Request request;
    request.method = from.method;
    request.path = from.path;
    request.parameters = parse_query(from.target);
    request.host = from.get_header_value("Host");
    request.accept = from.get_header_value("Accept");
    request.authorization = from.get_header_value("Authorization");
    request.fetch_site = from.get_header_value("Sec-Fetch-Site");
    request.fetch_mode = from.get_header_value("Sec-Fetch-Mode");
    request.hung_up = current->hung_up;

    auto reply = router_.handle(request, surface_);
    to.status = reply.status;
    for (const auto& [name, value] : reply.headers) to.set_header(name, value);
    to.body = std::move(reply.body);  // set_content() would copy it
    to.set_header("Content-Type", reply.content_type);
    current->slot = std::move(reply.slot);
  }

  Router& router_;
  const Surface surface_;
};

Exchange::Exchange(Router& router, Surface surface)
    : parser_(std::make_unique<Parser>(router, std::move(surface))) {}
Exchange::~Exchange() = default;

bool Exchange::serve(Connection& connection) { return parser_->serve(connection); }

}  // namespace pillion::http
