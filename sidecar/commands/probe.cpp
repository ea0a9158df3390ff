// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "commands/commands.h"
#include "http/access.h"
#include "http/client.h"

namespace pillion::commands {
namespace {

constexpr std::chrono::milliseconds kTimeout{900};  // a kubelet's default probe timeout is 1 s

}  // namespace

int probe(const Options& options) {
  const bool live = options.probe == Probe::live;
  const auto& server = options.probe_target ? *options.probe_target : options.listen;
  std::string token;
  if (!options.token_file.empty()) {
    const auto read = http::read_token(options.token_file);
    if (!read) {
      std::fprintf(stderr, "pillion: flag -token-file: %s\n", read.error().message().c_str());
      return kUsage;
    }
    token = *read;
  }
  const auto reply = http::http_get(server, live ? "/healthz" : "/readyz", kTimeout, token);
  if (!reply) {
    std::fprintf(stderr, "pillion: %s\n", reply.error().message().c_str());
    return kInternal;
  }
  if (reply->status == 200) return kDone;
  std::fprintf(stderr, "pillion: not %s: %s\n", live ? "live" : "ready", reply->body.c_str());
  return live ? kInternal : kNoShim;
}

}  // namespace pillion::commands
