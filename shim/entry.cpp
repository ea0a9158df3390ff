// SPDX-License-Identifier: Apache-2.0
//
// The way in, and the three ways out: exit, fork, and never having started. injected_start.cpp is the other
// way in.
#include "entry.h"

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
#include "start_hold.h"
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

const char* inert(const char* why) {
  log_line("inert:", why);
  return why;
}

const char* start(const StartSettings& settings) {
  // A set-uid program must not be steered by the environment of whoever started it.
  if (::getauxval(AT_SECURE) != 0) return "the program runs with more rights than who started it";
  open_log(settings.log_path);
  ControlConfig config{};
  if (!read_identity(&config.self)) return inert("/proc does not tell who we are");
  BoundedText(config.access.uids).add(settings.allow_uids);
  BoundedText(config.access.gids).add(settings.allow_gids);
  config.eager = settings.eager;
  config.late = settings.late;
  const char* problem = open_socket(settings.socket_directory, config.self);
  if (problem != nullptr && settings.abstract_else) problem = open_socket("", config.self);
  if (problem != nullptr) return inert(problem);
  ::pthread_atfork(nullptr, nullptr, in_forked_child);
  expect_exit();
  hold_program(settings.recorder);  // before the first HELLO, which says it
  if (!settings.late) capture_cuda_is_starting();
  if (start_control_thread(config)) {
    if (settings.eager) capture_start_eager();
    return nullptr;
  }
  release_program();
  remove_socket_name();
  stop_listening();
  return inert("no thread could be started");
}

StartSettings settings_of_environment() {
  const char* directory = variable("PILLION_SOCKET_DIR");
  return {*directory == '\0' ? PILLION_SOCKET_DIR_DEFAULT : directory,
          variable("PILLION_ALLOW_UID"),
          variable("PILLION_ALLOW_GID"),
          variable("PILLION_LOG"),
          std::strcmp(variable("PILLION_EAGER"), "1") == 0,
          *variable("CUDA_INJECTION64_PATH") == '\0',
          false,
          variable("PILLION_RECORDER")};
}

}  // namespace

const char kStartedBefore[] = "the shim has been started already";

const char* start_once(const StartSettings& settings) {
  return started.exchange(true) ? kStartedBefore : start(settings);
}

}  // namespace pillion::shim

// Called by the driver inside cuInit, or by whoever loads the library later; more often is harmless. Always
// 1, which the driver takes as success: a shim that stays inert is no reason for cuInit to fail.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  if (pillion::shim::start_once(pillion::shim::settings_of_environment()) == nullptr) {
    pillion::shim::wait_while_held();
  }
  return 1;
}
