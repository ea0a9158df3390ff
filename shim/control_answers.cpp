// SPDX-License-Identifier: Apache-2.0
//
// The half of ControlSession that answers without changing what is recorded: greeting, maps, files, refusals.
#include <unistd.h>

#include <cstring>

#include "bounded_text.h"
#include "capture.h"
#include "control_session.h"
#include "mapped_file.h"
#include "maps_watch.h"
#include "shim_log.h"
#include "start_hold.h"
#include "system_calls.h"

namespace pillion::shim {

void ControlSession::connect(OwnedFd fd, const PeerCredentials& who) {
  if (!peer_allowed(who, static_cast<std::uint32_t>(::geteuid()), config_.access)) {
    log_line("refused a sidecar of uid", "", who.uid);
    char text[192];
    BoundedText(text)
        .add("uid ")
        .add(who.uid)
        .add(" may not profile uid ")
        .add(static_cast<std::uint64_t>(::geteuid()))
        .add("; PILLION_ALLOW_UID or PILLION_ALLOW_GID in the workload's environment would let it");
    const pillion_refused refused = make_refused(PILLION_REFUSAL_ACCESS, 0, text);
    return answer_and_close(fd, &refused, sizeof refused);
  }
  // After a stop of the whole process a dead peer may stand in front of a live one in the same queue.
  if (peer_.open() && peer_.hung_up()) lose_peer();
  if (peer_.open()) {
    pillion_busy busy{};
    begin_message(&busy.header, PILLION_BUSY, sizeof busy);
    busy.holder_pid = peer_.who().pid;
    return answer_and_close(fd, &busy, sizeof busy);
  }
  peer_.take(fd, who);
  log_line("connected with pid", "", who.pid);
  send_hello();
}

void ControlSession::send_hello() {
  pillion_hello hello{};
  begin_message(&hello.header, PILLION_HELLO, sizeof hello);
  hello.pid = config_.self.pid;
  hello.uid = static_cast<std::uint32_t>(::geteuid());
  hello.pid_namespace = config_.self.pid_namespace;
  hello.start_time = config_.self.start_time;
  hello.now_ns = monotonic_ns();
  // While cuInit waits there is none, and the question itself might wait for cuInit.
  if (program_is_held()) {
    hello.flags |= PILLION_HELLO_HELD;
  } else if (capture_context_exists()) {
    hello.flags |= PILLION_HELLO_CONTEXT;
  }
  if (config_.eager) hello.flags |= PILLION_HELLO_EAGER;
  if (config_.late) hello.flags |= PILLION_HELLO_LATE;
  if (!asleep()) hello.flags |= PILLION_HELLO_ARMED;
  hello.driver_version = capture_driver_version();
  hello.cupti_version = capture_cupti_version();
  read_comm(hello.comm, sizeof hello.comm);
  read_exe(hello.exe, sizeof hello.exe);
  BoundedText(hello.shim_version).add(PILLION_VERSION);
  BoundedText(hello.cupti_path).add(capture_cupti_path());
  peer_.send(&hello, sizeof hello);
}

void ControlSession::refuse(std::uint32_t reason, std::uint64_t generation, const char* text) {
  log_line("refused:", text);
  const pillion_refused refused = make_refused(reason, generation, text);
  peer_.send(&refused, sizeof refused);
}

void ControlSession::on_message(std::uint32_t type) {
  switch (type) {
    case PILLION_ARM:
      return on_arm();
    case PILLION_DISARM:
      return on_disarm();
    case PILLION_FLUSH:
      return on_flush();
    case PILLION_GET_MAPS:
      return on_get_maps();
    case PILLION_GET_FILE:
      return on_get_file();
    case PILLION_QUERY:
      return send_hello();
    case PILLION_START:
      return release_program();
    default:
      return;  // RENEW: that it came is all it says
  }
}

void ControlSession::answer_flush(const Flush& flush, std::uint64_t begun_ns, std::uint32_t result) {
  if (!flush.wanted) return;
  pillion_flushed flushed{};
  begin_message(&flushed.header, PILLION_FLUSHED, sizeof flushed);
  flushed.token = flush.token;
  flushed.begun_ns = begun_ns;
  flushed.cupti_result = result;
  peer_.send(&flushed, sizeof flushed);
}

void ControlSession::on_flush() {
  constexpr std::uint32_t kNotInitialized = 15;  // CUPTI_ERROR_NOT_INITIALIZED
  pillion_flush message{};
  std::memcpy(&message, in_.bytes, sizeof message);
  const Flush flush{message.token, message.forced != 0, true};
  const bool running = state_ == CaptureState::arming || state_ == CaptureState::armed;
  if (running && flush_count_ < kFlushesMax) {
    flushes_[flush_count_++] = flush;
  } else {
    answer_flush(flush, 0, kNotInitialized);
  }
}

void ControlSession::send_maps_if_new() {
  if (!peer_.maps_sent()) {
    maps_again_ = true;  // the text under way must stay until it has left
    return;
  }
  const MapsText maps = read_maps();
  if (maps.text == nullptr || maps.generation == maps_sent_generation_) return;
  maps_sent_generation_ = maps.generation;
  peer_.send_maps(maps.text, maps.bytes, maps.generation);
}

void ControlSession::send_python_if_new() {
  pillion_python python{};
  const std::uint32_t changes = capture_python(&python);
  if (changes == python_sent_) return;
  python_sent_ = changes;
  begin_message(&python.header, PILLION_PYTHON, sizeof python);
  python.generation = arm_.generation;
  peer_.send(&python, sizeof python);
}

void ControlSession::on_get_maps() {
  pillion_get_maps get{};
  std::memcpy(&get, in_.bytes, sizeof get);
  if (!peer_.maps_sent()) {
    maps_again_ = true;
    return;
  }
  const MapsText maps = read_maps();
  const bool known =
      maps.text == nullptr || (get.known_generation != 0 && get.known_generation == maps.generation);
  maps_sent_generation_ = maps.generation;
  peer_.send_maps(known ? nullptr : maps.text, known ? 0 : maps.bytes, maps.generation);
}

void ControlSession::on_get_file() {
  pillion_get_file get{};
  std::memcpy(&get, in_.bytes, sizeof get);
  const MappedFile opened = open_mapped_file(get.start);
  pillion_file file{};
  begin_message(&file.header, PILLION_FILE, sizeof file);
  file.request = get.request;
  file.error = opened.error;
  file.flags = opened.flags;
  peer_.send(&file, sizeof file, opened.fd);
}

}  // namespace pillion::shim
