// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace pillion::shim {

// What the environment of a process tells its shim, or an injector.
struct StartSettings {
  const char* socket_directory;  // empty: an abstract socket
  const char* allow_uids;
  const char* allow_gids;
  const char* log_path;
  bool eager;
  bool late;                       // loaded by somebody else than cuInit
  bool abstract_else;              // an abstract socket should the directory not do
  const char* recorder = nullptr;  // PILLION_RECORDER, see start_hold.h
};

// Starts the shim; once per process. Null, or why it stays inert: `kStartedBefore` when it had been started.
[[nodiscard]] const char* start_once(const StartSettings& settings);

extern const char kStartedBefore[];

}  // namespace pillion::shim
