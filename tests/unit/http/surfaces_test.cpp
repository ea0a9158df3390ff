// SPDX-License-Identifier: Apache-2.0
// What each path answers, over real sockets.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "http/server_fixture.h"

namespace pillion::http {
namespace {

TEST_CASE_METHOD(ServerFixture, "profile passes every parameter on and answers with the service's bytes") {
  service.release_windows();
  service.set_body(std::string("\x1f\x8b\x00\xff bytes", 10));
  const auto response = get("/profile?seconds=7&type=gpu&format=pprof&pid=42&device=3");
  CHECK(response.status == 200);
  CHECK(response.body == std::string("\x1f\x8b\x00\xff bytes", 10));
  CHECK(response.headers.at("Content-Type") == "application/octet-stream");
  CHECK(response.headers.at("Content-Disposition") == "attachment; filename=\"pillion-gpu.pb.gz\"");
  const auto requests = service.requests();
  REQUIRE(requests.size() == 1);
  CHECK(requests[0].duration == std::chrono::seconds(7));
  CHECK(requests[0].pid == 42u);
  CHECK(requests[0].device == 3u);
  CHECK_FALSE(requests[0].end_with_targets);
}

TEST_CASE_METHOD(ServerFixture, "only pprof is offered as a file to keep") {
  service.release_windows();
  CHECK(get("/profile?format=json").headers.count("Content-Disposition") == 0);
  CHECK(get("/profile?format=json").headers.at("Content-Type") == "application/json");
  CHECK(get("/profile?format=folded").headers.at("Content-Type") == "text/plain; charset=utf-8");
}

TEST_CASE_METHOD(ServerFixture, "an empty profile says in a header why it is") {
  service.release_windows();
  CHECK(get("/profile?format=folded").headers.count("Pillion-Empty") == 0);
  service.set_empty_because("no thread waited");
  CHECK(get("/profile?format=folded").headers.at("Pillion-Empty") == "no thread waited");
}

TEST_CASE_METHOD(ServerFixture, "the pages list the types that are taken, and no other") {
  const std::string home = get("/").body, index = get("/debug/pprof/").body;
  for (const char* type : {"idle", "sync"}) {
    CHECK(home.find(std::string("type=") + type) != std::string::npos);
    CHECK(index.find(std::string("\"/debug/pprof/") + type) != std::string::npos);
  }
  for (const char* type : {"profile", "heap", "allocs"})
    CHECK(index.find(std::string("\"/debug/pprof/") + type) == std::string::npos);
}

TEST_CASE_METHOD(ServerFixture, "profile without parameters is 20 s of gpu as pprof") {
  service.release_windows();
  CHECK(get("/profile").status == 200);
  const auto request = service.requests().at(0);
  CHECK(request.duration == std::chrono::seconds(20));
  CHECK(request.type == ProfileType::gpu);
  CHECK(request.format == ProfileFormat::pprof);
  CHECK_FALSE(request.pid);
  CHECK_FALSE(request.device);
}

TEST_CASE_METHOD(ServerFixture, "the pprof paths have their types") {
  service.release_windows();
  const auto [path, type] = GENERATE(table<std::string, ProfileType>({{"gpu", ProfileType::gpu},
                                                                      {"idle", ProfileType::idle},
                                                                      {"sync", ProfileType::sync},
                                                                      {"profile", ProfileType::cpu},
                                                                      {"heap", ProfileType::heap},
                                                                      {"allocs", ProfileType::allocs}}));
  CHECK(get("/debug/pprof/" + path + "?seconds=2").status == 200);
  CHECK(service.requests().at(0).type == type);
  CHECK(service.requests().at(0).duration == std::chrono::seconds(2));
  CHECK(get("/debug/pprof/" + path + "?type=gpu").status == 400);
}

TEST_CASE_METHOD(ServerFixture, "heap without seconds is no window") {
  CHECK(get("/debug/pprof/heap").status == 200);
  CHECK(get("/profile?type=allocs").status == 200);
  CHECK(service.requests().at(0).duration == std::chrono::seconds(0));
  CHECK(service.requests().at(1).duration == std::chrono::seconds(0));
}

TEST_CASE_METHOD(ServerFixture, "a service error becomes its status and JSON") {
  service.release_windows();
  const auto [code, status, name] =
      GENERATE(table<ErrorCode, int, std::string>({{ErrorCode::needs_grant, 403, "needs_grant"},
                                                   {ErrorCode::unknown_pid, 404, "unknown_pid"},
                                                   {ErrorCode::settings_in_force, 409, "settings_in_force"},
                                                   {ErrorCode::subscriber_held, 409, "subscriber_held"},
                                                   {ErrorCode::too_large, 413, "too_large"},
                                                   {ErrorCode::not_available, 501, "not_available"},
                                                   {ErrorCode::no_gpu_records, 502, "no_gpu_records"},
                                                   {ErrorCode::no_shim, 503, "no_shim"}}));
  service.set_error({code,
                     "held by \xff"
                     "torch",
                     "end it"});
  const auto response = get("/profile?seconds=1");
  CHECK(response.status == status);
  CHECK(error_code(response) == name);
  CHECK(response.headers.at("Content-Type") == "application/json");
  CHECK(response.headers.count("Content-Disposition") == 0);
  CHECK(nlohmann::json::parse(response.body)["error"]["hint"] == "end it");
}

TEST_CASE_METHOD(ServerFixture,
                 "parameters out of range, unknown or repeated are named, and open no window") {
  const auto [query, named] = GENERATE(
      table<std::string, std::string>({{"seconds=0", "seconds"},
                                       {"seconds=3601", "3600"},
                                       {"seconds=-1", "seconds"},
                                       {"seconds=", "seconds"},
                                       {"seconds=1.5", "seconds"},
                                       {"seconds=5s", "seconds"},
                                       {"seconds=99999999999999999999", "seconds"},
                                       {"seconds=%00", "seconds"},
                                       {"seconds=+5", "seconds"},
                                       {"seconds", "seconds"},
                                       {"pid=0", "pid"},
                                       {"pid=4194305", "4194304"},
                                       {"pid=self", "pid"},
                                       {"device=-1", "device"},
                                       {"device=1024", "1023"},
                                       {"type=cuda", "not one of gpu, idle, sync\""},
                                       {"type=sync&kinds=kernel,memcpy,calls", "needs the kind sync"},
                                       {"kinds=memcpy,sync&type=idle", "needs the kind kernel"},
                                       {"type=", "type"},
                                       {"format=svg", "svg"},
                                       {"format=PPROF", "PPROF"},
                                       {"second=5", "second"},
                                       {"seconds=5&x=1", "x"},
                                       {"=5", "unknown"},
                                       {"seconds=5&seconds=6", "twice"},
                                       {"seconds=5&pid=1&pid=2", "pid is given twice"}}));
  const auto response = get("/profile?" + query);
  INFO(query << " -> " << response.body);
  CHECK(response.status == 400);
  CHECK(error_code(response) == "bad_parameter");
  CHECK(response.body.find(named) != std::string::npos);
  CHECK(service.requests().empty());
}

TEST_CASE_METHOD(ServerFixture, "the ends of each range are accepted") {
  service.release_windows();
  for (const char* query : {"seconds=1", "seconds=3600", "pid=1", "pid=4194304", "device=0", "device=1023",
                            "type=offcpu", "type=idle&kinds=kernel", "type=sync&kinds=memcpy,sync",
                            "format=folded", "format=json", "", "&", "seconds=%35"}) {
    INFO(query);
    CHECK(get(std::string("/profile?") + query).status == 200);
  }
}

TEST_CASE_METHOD(ServerFixture, "paths that take no parameters refuse them") {
  for (const char* path :
       {"/", "/status", "/metrics", "/healthz", "/readyz", "/debug/pprof/", "/debug/pprof/cmdline"}) {
    INFO(path);
    CHECK(get(path).status == 200);
    CHECK(get(std::string(path) + "?verbose=1").status == 400);
  }
}

TEST_CASE_METHOD(ServerFixture, "unknown paths are 404") {
  for (const char* path : {"/nope", "/profile/", "/PROFILE", "//profile", "/debug/pprof/symbol",
                           "/../etc/passwd", "/profile%2f", "/%00", "/status;x"}) {
    INFO(path);
    const auto response = get(path);
    CHECK(response.status == 404);
    CHECK(error_code(response) == "not_found");
  }
}

TEST_CASE_METHOD(ServerFixture, "other methods are 405 with Allow, and the connection ends") {
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
    INFO(method);
    RawClient client(server->port());
    REQUIRE(client.send(std::string(method) +
                        " /profile HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nabcde"));
    const auto response = client.receive();
    CHECK(response.status == 405);
    CHECK(error_code(response) == "method_not_allowed");
    CHECK(response.headers.at("Allow") == "GET, HEAD");
    CHECK(client.at_end());
  }
  CHECK(service.requests().empty());
}

TEST_CASE_METHOD(ServerFixture, "HEAD answers headers and opens no window") {
  RawClient client(server->port());
  REQUIRE(client.send("HEAD /profile?seconds=3600 HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  const auto response = client.receive(true);
  CHECK(response.status == 200);
  CHECK(response.headers.at("Content-Type") == "application/octet-stream");
  CHECK(service.requests().empty());
  REQUIRE(client.send("HEAD /profile?seconds=0 HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  CHECK(client.receive(true).status == 400);
}

TEST_CASE_METHOD(ServerFixture, "only loopback's names pass as Host") {
  const auto [host, status] = GENERATE(table<std::string, int>({{"localhost", 200},
                                                                {"LOCALHOST:7070", 200},
                                                                {"127.0.0.1:1", 200},
                                                                {"127.8.9.10", 200},
                                                                {"[::1]:7070", 200},
                                                                {"rebound.example.com", 403},
                                                                {"localhost.example.com:7070", 403},
                                                                {"127.0.0.1.example.com", 403},
                                                                {"10.0.0.1", 403},
                                                                {"[::1", 403}}));
  RawClient client(server->port());
  REQUIRE(client.send("GET /status HTTP/1.1\r\nHost: " + host + "\r\n\r\n"));
  INFO(host);
  CHECK(client.receive().status == status);
}

TEST_CASE_METHOD(ServerFixture, "what a browser asks for on behalf of another origin's page is refused") {
  const auto [headers, status] = GENERATE(table<std::string, int>(
      {{"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n", 403},
       {"Sec-Fetch-Site: same-site\r\nSec-Fetch-Mode: cors\r\n", 403},  // another port of localhost
       {"Sec-Fetch-Site: cross-site\r\n", 403},
       {"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n", 200},
       {"Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\n", 200},
       {"Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\n", 200}}));
  CAPTURE(headers);
  RawClient client(server->port());
  REQUIRE(client.send("GET /status HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n"));
  CHECK(client.receive().status == status);
}

TEST_CASE_METHOD(ServerFixture, "a request without Host is a simple probe") {
  RawClient client(server->port());
  REQUIRE(client.send("GET /healthz HTTP/1.0\r\n\r\n"));
  CHECK(client.receive().status == 200);
  CHECK(client.at_end());
}

TEST_CASE_METHOD(ServerFixture, "health and readiness follow the service") {
  CHECK(get("/healthz").body == "ok\n");
  service.set_ready({false, "no shim in /run/pillion"});
  const auto not_ready = get("/readyz");
  CHECK(not_ready.status == 503);
  CHECK(error_code(not_ready) == "no_shim");
  CHECK(not_ready.body.find("/run/pillion") != std::string::npos);
  CHECK(get("/healthz").status == 200);
  service.set_alive({false, "the drain thread is stuck"});
  CHECK(get("/healthz").status == 503);
}

TEST_CASE_METHOD(ServerFixture, "the health listener serves its three paths alone") {
  const auto health = [&](std::string_view path) {
    return RawClient(server->health_port()).get(path).status;
  };
  CHECK(health("/healthz") == 200);
  CHECK(health("/readyz") == 200);
  CHECK(health("/metrics") == 200);
  for (const char* path : {"/", "/profile?seconds=1", "/status", "/debug/pprof/", "/debug/pprof/cmdline"}) {
    INFO(path);
    CHECK(health(path) == 404);
  }
  CHECK(service.requests().empty());
}

TEST_CASE_METHOD(ServerFixture, "status is the service's, with the server's own part") {
  const auto body = nlohmann::json::parse(get("/status").body);
  CHECK(body["state"] == "fake");
  CHECK(body["http"]["windows_max"] == 16);
}

TEST_CASE_METHOD(ServerFixture, "cmdline is this program's, separated by NUL") {
  CHECK(get("/debug/pprof/cmdline").body.find("unit_http") != std::string::npos);
}

TEST_CASE_METHOD(ServerFixture, "a browser gets the page at /, everybody else the index") {
  const auto home = [&](const std::string& headers) {
    RawClient client(server->port());
    REQUIRE(client.send("GET / HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n"));
    return client.receive();
  };
  const auto page = home("Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\r\n");
  CHECK(page.status == 200);
  CHECK(page.body == "<p>the page");
  CHECK(page.headers.at("Content-Type") == "text/html; charset=utf-8");
  CHECK(page.headers.at("Vary") == "Accept");
  for (const char* headers : {"", "Accept: */*\r\n"}) {
    const auto index = home(headers);
    CHECK(index.status == 200);
    CHECK(index.body.find("/profile?seconds=5") != std::string::npos);
  }
}

TEST_CASE_METHOD(ServerFixture, "the page may load and ask what is of this server, and nothing else") {
  const auto script = get("/web/page.js");
  CHECK(script.status == 200);
  CHECK(script.body == "let script;");
  CHECK(script.headers.at("Content-Type") == "text/javascript; charset=utf-8");
  CHECK(script.headers.at("X-Content-Type-Options") == "nosniff");
  const auto policy = script.headers.at("Content-Security-Policy");
  CHECK(policy.find("default-src 'none'") == 0);
  for (const char* foreign : {"unsafe", "http:", "https:", "data:", "blob:", "*"}) {
    INFO(foreign);
    CHECK(policy.find(foreign) == std::string::npos);
  }
  CHECK(get("/web/page.js?x=1").status == 400);
  CHECK(get("/web/").status == 404);
  CHECK(get("/web/page.css").status == 404);
  CHECK(RawClient(server->health_port()).get("/web/page.js").status == 404);
}

}  // namespace
}  // namespace pillion::http
