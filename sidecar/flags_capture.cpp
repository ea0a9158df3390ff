// SPDX-License-Identifier: Apache-2.0

#include "base/capture_settings.h"
#include "flag_tables.h"
#include "flag_values.h"
#include "mode_reasons.h"

namespace pillion {
namespace {

using namespace std::chrono_literals;

Result<void> set_finalize(Options& options, const std::string& text) {
  if (text != "auto" && text != "never") return fail("read", "'" + text + "'", "not auto or never");
  options.finalize = text == "auto" ? Finalize::automatic : Finalize::never;
  return {};
}

Result<void> set_python(Options& options, const std::string& text) {
  if (text != "on" && text != "off") return fail("read", "'" + text + "'", "not on or off");
  options.python = text == "on";
  return {};
}

constexpr Flag kFlags[] = {
    {"kinds", "KIND,...", "all",
     "what is recorded: all, or some of kernel, memcpy, memset, overhead, stacks, modules, python, "
     "sync (calls that wait for the GPU), calls (how long launch calls take)",
     kProfiling, kAttachesNothing,
     [](Options& o, const std::string& text) { return store(parse_kinds(text), o.kinds); }},
    {"lease", "DURATION", "5s", "a shim that hears nothing of pillion for so long lets go by itself",
     kProfiling, kAttachesNothing,
     [](Options& o, const std::string& text) {
       return store(parse_duration_within(text, 1s, 10min), o.lease);
     }},
    {"drain-every", "DURATION", "50ms", "how often the rings are read", kProfiling, kAttachesNothing,
     [](Options& o, const std::string& text) {
       return store(parse_duration_within(text, 1ms, 10s), o.drain_every);
     }},
    {"ring-budget", "SIZE", "512MiB", "shared memory for the rings of all processes", kProfiling,
     kAttachesNothing,
     [](Options& o, const std::string& text) {
       return store(parse_bytes_within(text, 1ull << 20, 1ull << 36), o.ring_budget_bytes);
     }},
    {"sample-budget", "PERCENT", "1", "share of the launching threads' time that snapshots may take",
     kProfiling, kAttachesNothing,
     [](Options& o, const std::string& text) { return store(parse_permyriad(text), o.sample_permyriad); }},
    {"sample-mib", "N", "64", "MiB of snapshots per second and process", kProfiling, kAttachesNothing,
     [](Options& o, const std::string& text) {
       return store(parse_whole_within(text, 1, 65'536), o.sample_mib_per_s);
     }},
    {"stack-bytes", "N", "196608", "most bytes of one snapshot", kProfiling, kAttachesNothing,
     [](Options& o, const std::string& text) {
       return store(parse_whole_within(text, 1024, 1'048'576), o.stack_bytes);
     }},
    {"python", "on|off", "on", "the Python frames of launching threads (CPython 3.9 to 3.14)", kProfiling,
     kAttachesNothing, set_python},
    {"events-rings", "N", "16", "rings for launches and executions", kProfiling, kAttachesNothing,
     [](Options& o, const std::string& text) {
       return store(parse_whole_within(text, 1, 64), o.events_rings);
     }},
    {"events-ring-kib", "N", "1024", "size of each, a power of two", kProfiling, kAttachesNothing,
     [](Options& o, const std::string& text) {
       return store(parse_power_of_two_within(text, 4, 65'536), o.events_ring_kib);
     }},
    {"stacks-rings", "N", "8", "rings for stack snapshots", kProfiling, kAttachesNothing,
     [](Options& o, const std::string& text) {
       return store(parse_whole_within(text, 1, 64), o.stacks_rings);
     }},
    {"stacks-ring-kib", "N", "2048", "size of each, a power of two", kProfiling, kAttachesNothing,
     [](Options& o, const std::string& text) {
       return store(parse_power_of_two_within(text, 4, 65'536), o.stacks_ring_kib);
     }},
    {"linger", "DURATION", "30s", "how long a shim stays armed after the last window", kServe,
     ModeReasons(kRecord, "record takes one window and ends") + kAttachesNothing,
     [](Options& o, const std::string& text) {
       return store(parse_duration_within(text, 0ms, 1h), o.linger);
     }},
    {"finalize", "auto|never", "auto", "finalize CUPTI at detach where the program survives it, or never",
     kProfiling, kAttachesNothing, set_finalize},
};

}  // namespace

std::span<const Flag> capture_flags() { return kFlags; }

}  // namespace pillion
