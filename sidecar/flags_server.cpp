// SPDX-License-Identifier: Apache-2.0

#include "flag_tables.h"
#include "flag_values.h"
#include "http/access.h"
#include "mode_reasons.h"

namespace pillion {
namespace {

Result<void> set_url(Options& options, const std::string& text) {
  std::string_view rest = text;
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  return store(http::parse_listen_address(rest), options.probe_target);
}

Result<void> set_listen_mode(Options& options, const std::string& text) {
  if (text != "0600" && text != "0660") {
    return fail("read", "'" + text + "'", "not 0600 (this user alone) or 0660 (its group, too)");
  }
  options.listen_mode = text == "0660" ? 0660 : 0600;
  return {};
}

constexpr Flag kFlags[] = {
    {"listen", "ADDR", "127.0.0.1:7070",
     "address of the HTTP server, or unix:/PATH for a socket in the file system; port 0 takes a free one; "
     "beyond "
     "loopback only with -token-file, or -insecure",
     kServe | kProbe, kNeverAddressed,
     [](Options& o, const std::string& text) { return store(http::parse_listen_address(text), o.listen); }},
    {"health-listen", "ADDR", "",
     "address that serves /healthz, /readyz and /metrics alone, e.g. :7071 for the "
     "pod's address",
     kServe, kHasNoServer,
     [](Options& o, const std::string& text) {
       return store(http::parse_listen_address(text), o.health_listen);
     }},
    {"listen-mode", "MODE", "0600", "permissions of a unix socket: 0600, or 0660 for the group as well",
     kServe, kHasNoServer, set_listen_mode},
    {"token-file", "FILE", "",
     "answer on -listen only who sends the token in this file (Authorization: Bearer TOKEN); it is read "
     "again for "
     "each request, so it may be changed; probe sends it",
     kServe | kProbe, kNeverAddressed,
     [](Options& o, const std::string& text) { return store_name(text, o.token_file); }},
    {"allow-host", "NAME", "",
     "a name under which -listen may be asked besides localhost and its own address, or .NAME for all below "
     "(may be "
     "repeated)",
     kServe, kHasNoServer,
     [](Options& o, const std::string& text) {
       return store(http::parse_host_name(text), o.allow_hosts.emplace_back());
     },
     false, true},
    {"insecure", "", "false",
     "let -listen go beyond loopback without a token: whoever reaches the address reads profiles", kServe,
     kHasNoServer, [](Options& o, const std::string& text) { return store(parse_boolean(text), o.insecure); },
     true},
    {"exit-with-workload", "", "false",
     "end, with exit code 0, when every attached process has ended, or every process of the pod without a "
     "shim",
     kServe, ModeReasons(kRecord, "record always ends with its target") + kAttachesNothing,
     [](Options& o, const std::string& text) { return store(parse_boolean(text), o.exit_with_workload); },
     true},
    {"url", "URL", "",
     "server to ask, e.g. http://127.0.0.1:7071 or unix:/PATH; default: the address of -listen", kProbe,
     kAsksNobody, set_url},
};

}  // namespace

std::span<const Flag> server_flags() { return kFlags; }

}  // namespace pillion
