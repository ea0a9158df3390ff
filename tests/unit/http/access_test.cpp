// SPDX-License-Identifier: Apache-2.0
// Who is let in: names, tokens, unix sockets.
#include "http/access.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <catch2/generators/catch_generators.hpp>

#include "http/client.h"
#include "http/connections.h"
#include "http/server_fixture.h"

namespace pillion::http {
namespace {

constexpr const char* kToken = "0123456789abcdef-._~+/=";

// A folder of its own; what lies in it goes with it.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/pillion-access-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }

  [[nodiscard]] std::string path(const std::string& name) const { return path_ / name; }
  std::string write(const std::string& text, mode_t mode = 0600) const {
    const auto file = path("token");
    std::ofstream(file, std::ios::trunc) << text;
    REQUIRE(::chmod(file.c_str(), mode) == 0);
    return file;
  }

 private:
  std::filesystem::path path_;
};

TEST_CASE("a host passes by loopback's names, the listener's address, or a name that was allowed") {
  const auto [listen, host, passes] = GENERATE(table<std::string, std::string, bool>({
      {"127.0.0.1:7070", "localhost:1", true},
      {"127.0.0.1:7070", "10.0.0.1", false},
      {"10.1.2.3:7070", "10.1.2.3:7070", true},
      {"10.1.2.3:7070", "10.1.2.4:7070", false},
      {"10.1.2.3:7070", "LocalHost", true},
      {":7070", "10.1.2.4:7070", true},  // a number cannot be rebound
      {":7070", "[fd00::1]:7070", true},
      {":7070", "[fd00::1", false},
      {":7070", "rebound.example.org", false},
      {":7070", "Pillion.Example.com:80", true},
      {":7070", "xpillion.example.com", false},
      {":7070", "a.b.example.net", true},
      {":7070", "example.net", false},
      {":7070", ".example.net", false},
      {":7070", "", true},
      {"unix:/x", "rebound.example.org", true},
  }));
  INFO(listen << " asked as " << host);
  const HostCheck check(parse_listen_address(listen).value(), {"pillion.example.com", ".example.net"});
  CHECK(check.passes(host) == passes);
}

TEST_CASE("names that may be allowed") {
  CHECK(parse_host_name("GPU-7.example.com").value() == "gpu-7.example.com");
  CHECK(parse_host_name(".svc").value() == ".svc");
  CHECK(parse_host_name("fd00::1").value() == "fd00::1");
  for (const char* text : {"", ".", "host:80", "http://host", "*", "a b", "[fd00::1]"}) {
    INFO(text);
    CHECK_FALSE(parse_host_name(text));
  }
}

TEST_CASE("a token file is one word that nobody else may read or write") {
  const Folder folder;
  CHECK(read_token(folder.write(std::string(kToken) + "\n")).value() == kToken);
  CHECK(read_token(folder.write(kToken, 0640)).value() == kToken);
  CHECK(read_token(folder.write(std::string(512, 'x'))).value().size() == 512);
  for (const mode_t mode : {0604u, 0602u, 0601u, 0620u, 0644u}) {
    const auto read = read_token(folder.write(kToken, mode));
    REQUIRE_FALSE(read);
    CHECK(read.error().message().find("chmod") != std::string::npos);
  }
  for (const auto& text : {std::string(), std::string("\n"), std::string(15, 'x'), std::string(513, 'x'),
                           std::string("two words are none"), std::string("0123456789abcdef\n2")}) {
    INFO(text);
    const auto read = read_token(folder.write(text));
    REQUIRE_FALSE(read);
    CHECK(read.error().message().find("16 to 512") != std::string::npos);
  }
  CHECK(read_token(folder.path("none")).error().number == ENOENT);
  CHECK_FALSE(read_token(folder.path("")));  // the folder
  REQUIRE(::mkfifo(folder.path("fifo").c_str(), 0600) == 0);
  CHECK_FALSE(read_token(folder.path("fifo")));  // and nobody waits for its writer
}

TEST_CASE("the token is admitted as Bearer or Basic, and nothing else is") {
  const Folder folder;
  const auto file = TokenFile::open(folder.write("abcdefghijklmnop"));
  REQUIRE(file);
  for (const char* header : {"Bearer abcdefghijklmnop", "bearer  abcdefghijklmnop",
                             "Basic cGlsbGlvbjphYmNkZWZnaGlqa2xtbm9w"}) {  // pillion:abcdefghijklmnop
    INFO(header);
    CHECK(file->admits(header));
  }
  for (const std::string& header :
       {std::string(), std::string("Bearer"), std::string("Bearer "), std::string("abcdefghijklmnop"),
        std::string("Bearer abcdefghijklmno"), std::string("Bearer abcdefghijklmnopq"),
        std::string("Bearer abcdefghijklmnop "), std::string("Bearer Abcdefghijklmnop"),
        "Bearer abcdefghijklmnop" + std::string(1, '\0'), "Bearer " + std::string(5000, 'a'),
        std::string("Basic abcdefghijklmnop"), std::string("Basic eDphYmNkZWZnaGlqa2xtbm9w"),  // user x
        std::string("Digest abcdefghijklmnop")}) {
    INFO(header);
    CHECK_FALSE(file->admits(header));
  }
}

TEST_CASE("a token counts as soon as it is in the file, and none does while the file is not right") {
  const Folder folder;
  const auto path = folder.write("first-first-first");
  const auto file = TokenFile::open(path);
  REQUIRE(file);
  CHECK(file->admits("Bearer first-first-first"));
  folder.write("other-other-other");  // of the same length, in the same instant
  CHECK_FALSE(file->admits("Bearer first-first-first"));
  CHECK(file->admits("Bearer other-other-other"));
  folder.write("other-other-other", 0644);
  CHECK_FALSE(file->admits("Bearer other-other-other"));
  std::filesystem::remove(path);
  CHECK_FALSE(file->admits("Bearer other-other-other"));
  CHECK_FALSE(TokenFile::open(path));
  folder.write("third-third-third");
  CHECK(file->admits("Bearer third-third-third"));
}

ServerConfig on_unix(const Folder& folder) {
  ServerConfig config;
  config.listen = parse_listen_address("unix:" + folder.path("http")).value();
  return config;
}

constexpr std::chrono::milliseconds kPatience{5'000};

TEST_CASE("without the token every path is 401 and says how to send it; with it, all is as ever") {
  const Folder folder;
  ServerConfig config;
  config.listen = {"127.0.0.1", 0, {}};
  config.health_listen = config.listen;
  config.token = TokenFile::open(folder.write(kToken)).value();
  FakeService service;
  const auto server = Server::create(config, service).value();
  for (const char* path :
       {"/", "/healthz", "/metrics", "/profile?seconds=1", "/debug/pprof/cmdline", "/nothing"}) {
    INFO(path);
    const auto response = RawClient(server->port()).get(path);
    CHECK(response.status == 401);
    CHECK(response.headers.at("WWW-Authenticate").find("realm=\"pillion\"") != std::string::npos);
    CHECK(error_code(response) == "unauthorized");
    CHECK(response.body.find("Authorization: Bearer") != std::string::npos);
    CHECK(response.body.find(kToken) == std::string::npos);
  }
  CHECK(service.requests().empty());
  const ListenAddress address{"127.0.0.1", server->port(), {}};
  CHECK(http_get(address, "/healthz", kPatience, kToken)->status == 200);
  CHECK(http_get(address, "/nothing", kPatience, kToken)->status == 404);
  CHECK(http_get(address, "/healthz", kPatience, std::string(kToken) + "x")->status == 401);
  CHECK(RawClient(server->health_port()).get("/metrics").status == 200);  // which has none of its own
}

TEST_CASE("a unix socket has its mode, takes any Host, and goes with the server") {
  const Folder folder;
  auto config = on_unix(folder);
  config.unix_mode = GENERATE(0600u, 0660u);
  FakeService service;
  {
    const auto server = Server::create(config, service);
    REQUIRE(server);
    CHECK((*server)->port() == 0);
    struct stat file {};
    REQUIRE(::stat(config.listen.path.c_str(), &file) == 0);
    CHECK(S_ISSOCK(file.st_mode));
    CHECK((file.st_mode & 0777) == config.unix_mode);
    const auto reply = http_get(config.listen, "/healthz", kPatience);
    REQUIRE(reply);
    CHECK(reply->body == "ok\n");
  }
  CHECK_FALSE(std::filesystem::exists(config.listen.path));
  CHECK(http_get(config.listen, "/healthz", kPatience).error().number == ENOENT);
}

TEST_CASE("a socket that was left behind is replaced; one that is in use, or another file, is not") {
  const Folder folder;
  const auto config = on_unix(folder);
  FakeService service;
  SECTION("left behind") {
    {
      const auto left = open_listener(config.listen);
      REQUIRE(left);
    }
    REQUIRE(std::filesystem::exists(config.listen.path));
    const auto server = Server::create(config, service);
    REQUIRE(server);
    CHECK(http_get(config.listen, "/healthz", kPatience)->status == 200);
  }
  SECTION("in use") {
    const auto first = Server::create(config, service);
    REQUIRE(first);
    const auto second = Server::create(config, service);
    REQUIRE_FALSE(second);
    CHECK(second.error().message().find("another program listens there") != std::string::npos);
    CHECK(http_get(config.listen, "/healthz", kPatience)->status == 200);
  }
  SECTION("another file") {
    std::ofstream(config.listen.path) << "precious";
    const auto server = Server::create(config, service);
    REQUIRE_FALSE(server);
    CHECK(server.error().message().find("no socket") != std::string::npos);
    CHECK(std::filesystem::file_size(config.listen.path) == 8);
  }
  SECTION("replaced by somebody else's while we serve: it is not ours to remove") {
    auto server = Server::create(config, service).value();
    std::filesystem::remove(config.listen.path);
    std::ofstream(config.listen.path) << "theirs";
    server.reset();
    CHECK(std::filesystem::exists(config.listen.path));
  }
}

TEST_CASE("the client says so when what answers is no server, or nothing does in time") {
  const auto listener = open_listener({"127.0.0.1", 0, {}});
  REQUIRE(listener);
  const ListenAddress address{"127.0.0.1", bound_port(*listener).value(), {}};
  const auto late = http_get(address, "/healthz", std::chrono::milliseconds(200));
  REQUIRE_FALSE(late);
  CHECK(late.error().message().find("no answer in time") != std::string::npos);
  Connections::Dispatch never = [](Connection&) { std::abort(); };
  ConnectionLimits limits;
  limits.idle_time = std::chrono::milliseconds(100);
  limits.head_bytes = 10;  // so that every head is too long
  auto other = open_listener({"127.0.0.1", 0, {}}).value();
  const ListenAddress rude{"127.0.0.1", bound_port(other).value(), {}};
  const auto connections = Connections::create(std::move(other), limits, never).value();
  connections->start();
  CHECK(http_get(rude, "/healthz", kPatience)->status == 431);
}

}  // namespace
}  // namespace pillion::http
