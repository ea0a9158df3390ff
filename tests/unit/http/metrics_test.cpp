// SPDX-License-Identifier: Apache-2.0
#include "http/metrics.h"

#include <catch2/catch_test_macros.hpp>

#include <set>
#include <sstream>

#include "http/server_fixture.h"

namespace pillion::http {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("counters end in _total, gauges do not, and every family has help and a type once") {
  MetricsSnapshot snapshot;
  snapshot.records_dropped = {{"busy", 1}};
  ServerCounters server;
  server.requests[{"/profile", 200}] = 1;
  std::set<std::string> typed;
  int counters = 0;
  for (const auto& line : lines_of(metrics_text(snapshot, server))) {
    if (!line.starts_with("# TYPE ")) continue;
    std::istringstream words(line.substr(7));
    std::string name;
    std::string type;
    words >> name >> type;
    INFO(line);
    CHECK(name.starts_with("pillion_"));
    CHECK(name.ends_with("_total") == (type == "counter"));
    CHECK(typed.insert(name).second);
    counters += type == "counter" ? 1 : 0;
  }
  CHECK(counters > 15);
  CHECK(typed.size() > static_cast<std::size_t>(counters));
}

TEST_CASE("values and labels arrive") {
  MetricsSnapshot snapshot;
  snapshot.launches = 12;
  snapshot.gpu_seconds = 1.5;
  snapshot.sessions_armed = 2;
  snapshot.records_dropped = {{"busy", 3}, {"full", 4}};
  snapshot.stacks = {{"rooted", 5}};
  const auto lines = lines_of(metrics_text(snapshot, {}));
  const std::set<std::string> found(lines.begin(), lines.end());
  for (const char* line :
       {"pillion_launches_total 12", "pillion_gpu_seconds_total 1.5", "pillion_sessions_armed 2",
        "pillion_records_dropped_total{reason=\"busy\"} 3",
        "pillion_records_dropped_total{reason=\"full\"} 4", "pillion_stacks_total{ending=\"rooted\"} 5"}) {
    INFO(line);
    CHECK(found.count(line) == 1);
  }
}

TEST_CASE_METHOD(ServerFixture, "requests are counted by path and status, unknown paths together") {
  get("/nope");
  get("/other");
  get("/healthz");
  get("/profile?seconds=0");
  RawClient client(server->health_port());
  const auto response = client.get("/metrics");
  CHECK(response.headers.at("Content-Type").starts_with("text/plain; version=0.0.4"));
  for (const char* line : {"pillion_http_requests_total{path=\"other\",status=\"404\"} 2\n",
                           "pillion_http_requests_total{path=\"/healthz\",status=\"200\"} 1\n",
                           "pillion_http_requests_total{path=\"/profile\",status=\"400\"} 1\n"}) {
    INFO(line);
    CHECK(response.body.find(line) != std::string::npos);
  }
}

}  // namespace
}  // namespace pillion::http
