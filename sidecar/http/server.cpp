// SPDX-License-Identifier: Apache-2.0
#include "http/server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "base/log.h"
#include "http/connections.h"
#include "http/exchange.h"
#include "http/router.h"
#include "http/workers.h"

namespace pillion::http {
namespace {

// Beyond those that windows can hold: what the quick paths need.
constexpr std::size_t kQuickWorkers = 4;
constexpr std::size_t kHealthWorkers = 2;
constexpr std::size_t kHealthConnections = 128;

std::string own_command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

// Removes the file of a unix socket at the end, unless another program has put its own in its place.
class SocketName {
 public:
  explicit SocketName(const ListenAddress& address) : path_(address.path) {
    if (::lstat(path_.c_str(), &made_) != 0) path_.clear();
  }
  SocketName(const SocketName&) = delete;
  SocketName& operator=(const SocketName&) = delete;
  ~SocketName() {
    struct stat now {};
    if (path_.empty() || ::lstat(path_.c_str(), &now) != 0) return;
    if (now.st_dev == made_.st_dev && now.st_ino == made_.st_ino) ::unlink(path_.c_str());
  }

 private:
  std::string path_;  // empty: none
  struct stat made_ {};
};

// A listener, the thread that watches its connections, and the threads that serve them.
class Endpoint {
 public:
  static Result<std::unique_ptr<Endpoint>> create(const ListenAddress& address, mode_t unix_mode,
                                                  Surface surface, std::size_t workers,
                                                  ConnectionLimits limits, Router& router) {
    auto listener = open_listener(address, unix_mode);
    if (!listener) return tl::make_unexpected(listener.error());
    const auto port = bound_port(*listener);
    if (!port) return tl::make_unexpected(port.error());

    std::unique_ptr<Endpoint> made(new Endpoint(address, router, std::move(surface), *port, workers));
    auto connections =
        Connections::create(std::move(*listener), limits,
                            [endpoint = made.get()](Connection& ready) { endpoint->workers_.submit(ready); });
    if (!connections) return tl::make_unexpected(connections.error());
    made->connections_ = std::move(*connections);
    made->connections_->start();  // not before: a worker gives its connection back through connections_
    return made;
  }
  ~Endpoint() { stop(); }

  void stop() {
    if (connections_) connections_->stop();  // first: it waits for what the workers serve
    workers_.stop();
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  Endpoint(const ListenAddress& address, Router& router, Surface surface, std::uint16_t port,
           std::size_t workers)
      : name_(address),
        port_(port),
        exchange_(router, std::move(surface)),
        workers_(workers, [this](Connection& connection) {
          const bool keep = exchange_.serve(connection);
          connections_->give_back(connection, keep);
        }) {}

  const SocketName name_;
  const std::uint16_t port_;
  Exchange exchange_;
  Workers workers_;
  std::unique_ptr<Connections> connections_;
};

class EndpointServer final : public Server {
 public:
  EndpointServer(ProfileService& service, RouterConfig config) : router_(service, std::move(config)) {}
  ~EndpointServer() override { stop(); }

  Result<void> start(const ServerConfig& config) {
    auto main = Endpoint::create(config.listen, config.unix_mode,
                                 {false, HostCheck(config.listen, config.allow_hosts), config.token},
                                 config.windows_max + kQuickWorkers, {}, router_);
    if (!main) return tl::make_unexpected(main.error());
    main_ = std::move(*main);
    log(LogLevel::info, "listening on " + bound(config.listen, port()).url() +
                            (config.token ? ", for requests with the token" : ""));
    if (!config.health_listen) return {};

    ConnectionLimits limits;
    limits.connections = kHealthConnections;
    // What is there is for everybody who reaches it, under whatever name: kubelet, Prometheus.
    const auto& address = *config.health_listen;
    auto hosts = address.local() ? HostCheck(address, config.allow_hosts) : HostCheck::none();
    auto health = Endpoint::create(address, config.unix_mode, {true, std::move(hosts), {}}, kHealthWorkers,
                                   limits, router_);
    if (!health) return tl::make_unexpected(health.error());
    health_ = std::move(*health);
    log(LogLevel::info, "health on " + bound(address, health_port()).url());
    return {};
  }

  std::uint16_t port() const override { return main_->port(); }
  std::uint16_t health_port() const override { return health_ ? health_->port() : 0; }

  void stop() override {
    if (main_) main_->stop();
    if (health_) health_->stop();
  }

 private:
  static ListenAddress bound(ListenAddress address, std::uint16_t port) {
    address.port = port;
    return address;
  }

  Router router_;  // first: the endpoints use it
  std::unique_ptr<Endpoint> main_;
  std::unique_ptr<Endpoint> health_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::create(const ServerConfig& config, ProfileService& service) {
  RouterConfig router;
  router.windows_max = config.windows_max;
  router.command_line = own_command_line();
  router.page = config.page;
  auto made = std::make_unique<EndpointServer>(service, std::move(router));
  if (auto started = made->start(config); !started) return tl::make_unexpected(started.error());
  return made;
}

}  // namespace pillion::http
