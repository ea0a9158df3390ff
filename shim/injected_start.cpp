// SPDX-License-Identifier: Apache-2.0
//
// The way in for a process that was started without the shim: an injector has loaded this library on a thread
// of its own making.
#include <stddef.h>

#include <cstring>

#include "abi/pillion_injection.h"
#include "bounded_text.h"
#include "control_socket.h"
#include "cupti_search.h"
#include "driver_state.h"
#include "entry.h"
#include "handed_files.h"

namespace pillion::shim {
namespace {

template <std::size_t N>
void terminate(char (&text)[N]) {
  text[N - 1] = '\0';
}

std::uint32_t refuse(pillion_injection* injection, std::uint32_t result, const char* why) {
  BoundedText(injection->text).add(why);
  return result;
}

bool understood(const pillion_injection& asked) {
  return asked.magic == PILLION_INJECTION_MAGIC && asked.major == PILLION_ABI_MAJOR &&
         asked.size >= sizeof(pillion_injection);
}

std::uint32_t start_from(const pillion_injection& asked, pillion_injection* out) {
  keep_handed_file(asked.library_fd, 0);
  for (std::uint32_t at = 0; at < asked.cupti_count && at < PILLION_INJECTION_CUPTI_MAX; ++at) {
    if (asked.cupti[at].cuda_version != 0) keep_handed_file(asked.cupti[at].fd, asked.cupti[at].cuda_version);
  }
  const StartSettings settings{
      asked.socket_directory, asked.allow_uids, asked.allow_gids, asked.log_path, false, true, true};
  const char* problem = start_once(settings);
  copy_socket_address(out->socket_name, sizeof out->socket_name);
  if (problem == nullptr) return PILLION_INJECTION_STARTED;
  return refuse(out, problem == kStartedBefore ? PILLION_INJECTION_STARTED_BEFORE : PILLION_INJECTION_INERT,
                problem);
}

std::uint32_t answer(const pillion_injection& asked, pillion_injection* out) {
  out->text[0] = '\0';
  if (!understood(asked))
    return refuse(out, PILLION_INJECTION_VERSION, "the injector speaks another version");
  if ((asked.flags & PILLION_INJECTION_ASK) == 0) return start_from(asked, out);
  out->driver_version = cuda_driver_version();
  if (!find_mapped_cupti(out->mapped_cupti, sizeof out->mapped_cupti)) out->mapped_cupti[0] = '\0';
  return PILLION_INJECTION_ANSWERED;
}

}  // namespace
}  // namespace pillion::shim

extern "C" __attribute__((visibility("default"))) void pillion_start_injected(pillion_injection* injection) {
  pillion_injection asked;
  std::memcpy(&asked, injection, sizeof asked);
  pillion::shim::terminate(asked.socket_directory);
  pillion::shim::terminate(asked.allow_uids);
  pillion::shim::terminate(asked.allow_gids);
  pillion::shim::terminate(asked.log_path);
  injection->result = pillion::shim::answer(asked, injection);
}
