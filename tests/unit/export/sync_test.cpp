// SPDX-License-Identifier: Apache-2.0
// Profiles of synchronisation calls in each of the formats, and the latencies of a GPU profile.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "example.h"
#include "export/folded.h"
#include "export/json.h"
#include "export/pprof.h"
#include "golden.h"
#include "profile/sync_builder.h"
#include "schema_check.h"

namespace pillion::exporting {
namespace {

using profile::Example;
using profile::Profile;

SyncSample sync_sample(std::uint32_t cbid, StackId stack, std::uint64_t calls, std::uint64_t ns,
                       bool open = false) {
  SyncSample sync;
  sync.tid = 4242;
  sync.cbid = cbid;
  sync.context = 1;
  sync.attribution = stack != 0 ? Attribution::exact : Attribution::unsampled;
  sync.stack = stack;
  sync.calls = calls;
  sync.open = open;
  sync.ns = ns;
  return sync;
}

struct SyncExample : Example {
  SyncExample() {
    const StackId item =
        stacks.intern(profile::stack_below_capture({{5, 0x50}, UnwoundFrame::python(1, 120), {1, 0x200}}));
    data.syncs = {sync_sample(126, item, 3, 900), sync_sample(17, 0, 2, 70),
                  sync_sample(278, item, 1, 5, true)};
  }
  [[nodiscard]] Profile make_sync() { return profile::build_sync(input, resolver); }
};

TEST_CASE("a sync profile's JSON follows the schema, which wants what is its own") {
  SyncExample e;
  auto json = nlohmann::json::parse(to_json(e.make_sync()));
  CHECK(complaints(json.dump()).empty());
  CHECK(json["type"] == "sync");
  REQUIRE(json["kernels"].size() == 3);
  CHECK(json["kernels"][0]["name"] == "cuStreamSynchronize");
  CHECK(json["kernels"][0]["sync_time_ns"] == 900);
  CHECK(json["kernels"][0]["sync_calls"] == 3);
  CHECK(json["kernels"][2]["name"] == "cuMemcpyDtoH");
  CHECK(json["stacks"][0]["labels"]["context"] == 1);
  CHECK_FALSE(json["stacks"][0]["labels"].contains("device"));
  CHECK(json["stacks"][2]["labels"]["open"] == "yes");
  json["stacks"][0].erase("sync_calls");
  CHECK(complaints(json.dump()).find("'sync_calls' is a required") != std::string::npos);
}

TEST_CASE("folded: the call that waits is the leaf") {
  SyncExample e;
  const std::string folded = to_folded(e.make_sync());
  CHECK(folded.find("main;Model.forward (model.py:12);cudaLaunchKernel;cuStreamSynchronize 900\n") !=
        std::string::npos);
  CHECK(folded.find("[unsampled];cuCtxSynchronize 70\n") != std::string::npos);
}

TEST_CASE("go tool pprof reads a sync profile") {
  if (std::system("go version >/dev/null 2>&1") != 0) SKIP("no go: it is what reads the profile here");
  SyncExample e;
  const auto bytes = to_pprof(e.make_sync());
  REQUIRE(bytes);
  const TemporaryFile file(*bytes);
  const std::string raw = output_of("PPROF_TMPDIR=/tmp go tool pprof -raw " + file.path() + " 2>&1");
  CHECK(raw.find("sync_time/nanoseconds[dflt] sync_calls/count") != std::string::npos);
}

TEST_CASE("more samples than a profile shows are merged, the sum stays") {
  SyncExample e;
  e.input.stacks_max = 2;
  e.data.syncs.push_back(sync_sample(278, 0, 1, 4));  // of the same call, and it returned
  const Profile merged = e.make_sync();
  std::int64_t ns = 0, calls = 0, open_ns = 0;
  for (const profile::Sample& sample : merged.samples) {
    ns += sample.values[profile::kSyncTimeNs];
    calls += sample.values[profile::kSyncCalls];
    const auto open = [&](const profile::Label& label) { return merged.text(label.key) == "open"; };
    if (std::any_of(sample.labels.begin(), sample.labels.end(), open))
      open_ns += sample.values[profile::kSyncTimeNs];
  }
  CHECK(ns == 975 + 4);
  CHECK(calls == 7);
  CHECK(open_ns == 5);
}

TEST_CASE("latencies: by kernel and stream, with percentiles and powers of two") {
  Example e;
  LatencyRow row;
  row.device = 0;
  row.context = 1;
  row.stream = 7;
  row.name = 1;
  for (std::uint64_t i = 1; i <= 100; ++i) row.queue.add(i * 1000);
  row.call.add(2500);
  LatencyRow other;
  other.merged = true;
  other.queue.add(1ull << 50);
  e.data.latencies = {row, other};
  const auto json = nlohmann::json::parse(to_json(e.make()));
  CHECK(complaints(json.dump()).empty());
  REQUIRE(json["latencies"].size() == 2);
  const auto& merged = json["latencies"][0];  // most queue time first
  CHECK(merged["name"] == "[other]");
  CHECK_FALSE(merged.contains("stream"));
  CHECK(merged["queue"]["histogram"][0]["from_ns"] == 1ull << 40);
  const auto& one = json["latencies"][1];
  CHECK(one["stream"] == 7);
  CHECK(one["queue"]["count"] == 100);
  CHECK(one["queue"]["sum_ns"] == 5'050'000);
  CHECK(one["queue"]["max_ns"] == 100'000);
  CHECK(std::abs(one["queue"]["p90_ns"].get<double>() - 90'000) < 90'000 * 0.016);
  CHECK(one["launch_call"]["p50_ns"] == 2500);
  std::uint64_t counted = 0;
  for (const auto& bucket : one["queue"]["histogram"]) counted += bucket["count"].get<std::uint64_t>();
  CHECK(counted == 100);
}

}  // namespace
}  // namespace pillion::exporting
