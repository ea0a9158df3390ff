// SPDX-License-Identifier: Apache-2.0

#include "flag_tables.h"
#include "flag_values.h"
#include "mode_reasons.h"

namespace pillion {
namespace {

Result<void> set_url(Options& options, const std::string& text) {
  std::string_view rest = text;
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  return store(http::parse_listen_address(rest), options.probe_target);
}

constexpr Flag kFlags[] = {
    {"listen", "ADDR", "127.0.0.1:7070",
     "address of the HTTP server; port 0 takes a free one; beyond loopback only "
     "with -insecure",
     kServe | kProbe, kNeverAddressed,
     [](Options& o, const std::string& text) { return store(http::parse_listen_address(text), o.listen); }},
    {"health-listen", "ADDR", "",
     "address that serves /healthz, /readyz and /metrics alone, e.g. :7071 for the "
     "pod's address",
     kServe, kHasNoServer,
     [](Options& o, const std::string& text) {
       return store(http::parse_listen_address(text), o.health_listen);
     }},
    {"insecure", "", "false", "let -listen go beyond loopback: whoever reaches the address reads profiles",
     kServe, kHasNoServer,
     [](Options& o, const std::string& text) { return store(parse_boolean(text), o.insecure); }, true},
    {"exit-with-workload", "", "false", "end, with exit code 0, when every attached process has ended",
     kServe, ModeReasons(kRecord, "record always ends with its target") + kAttachesNothing,
     [](Options& o, const std::string& text) { return store(parse_boolean(text), o.exit_with_workload); },
     true},
    {"url", "URL", "", "server to ask, e.g. http://127.0.0.1:7071; default: the address of -listen", kProbe,
     kAsksNobody, set_url},
};

}  // namespace

std::span<const Flag> server_flags() { return kFlags; }

}  // namespace pillion
