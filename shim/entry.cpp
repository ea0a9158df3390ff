// SPDX-License-Identifier: Apache-2.0
//
// The way in, and the three ways out: exit, fork, and never having started.
#include <pthread.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include <atomic>
#include <cstring>

#include "abi/pillion_abi.h"
#include "bounded_text.h"
#include "capture.h"
#include "control_socket.h"
#include "control_thread.h"
#include "process_exit.h"
#include "process_state.h"
#include "session_memory.h"
#include "shim_log.h"
#include "system_calls.h"

namespace pillion::shim {
namespace {

std::atomic<bool> started{false};

void in_forked_child() {
  forget_exit_in_child();
  capture_after_fork_in_child();
  close_memory_in_child();
  forget_in_child();
  close_log_in_child();
}

const char* variable(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? "" : value;
}

bool start() {
  // A set-uid program must not be steered by the environment of whoever started it.
  if (::getauxval(AT_SECURE) != 0) return false;
  open_log(variable("PILLION_LOG"));
  ControlConfig config{};
  if (!read_identity(&config.self)) {
    log_line("inert: /proc does not tell who we are");
    return false;
  }
  BoundedText(config.access.uids).add(variable("PILLION_ALLOW_UID"));
  BoundedText(config.access.gids).add(variable("PILLION_ALLOW_GID"));
  config.eager = std::strcmp(variable("PILLION_EAGER"), "1") == 0;
  config.late = *variable("CUDA_INJECTION64_PATH") == '\0';
  const char* directory = variable("PILLION_SOCKET_DIR");
  if (*directory == '\0') directory = PILLION_SOCKET_DIR_DEFAULT;
  const char* problem = open_socket(directory, config.self);
  if (problem != nullptr) {
    log_line("inert:", problem);
    return false;
  }
  ::pthread_atfork(nullptr, nullptr, in_forked_child);
  expect_exit();
  if (start_control_thread(config)) return true;
  log_line("inert: no thread could be started");
  remove_socket_name();
  stop_listening();
  return false;
}

}  // namespace
}  // namespace pillion::shim

// Called by the driver inside cuInit, or by whoever loads the library later; more often is harmless. Always
// 1, which the driver takes as success: a shim that stays inert is no reason for cuInit to fail.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  if (!pillion::shim::started.exchange(true)) static_cast<void>(pillion::shim::start());
  return 1;
}
