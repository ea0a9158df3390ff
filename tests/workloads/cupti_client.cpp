// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

#include "cupti_types.h"
#include "workload.h"

// A program that uses CUPTI itself, as torch.profiler does, and launches when told to. Each line on stdin is
// a command, answered by a line of its own:
//   NUMBER         launches so many kernels, waits for them, answers with the sum so far
//   profile-start  as Kineto: subscribes ("CUPTI for Kineto"), registers its buffers, enables kernel records
//   profile-stop   disables them and flushes; keeps the subscriber, unless TEARDOWN_CUPTI=1 is in the
//   environment: then
//                  CUPTI is finalized at the next API call's exit
//   record, stop   the same without a subscriber: the activity interface alone
//   steal          registers its buffers, nothing else
//   clock          registers a timestamp callback that tells CLOCK_REALTIME
//   disable        disables kernel records
//   finalize       finalizes CUPTI there and then
// Answers: the command, CUPTI's last result, records received since the last answer, and buffers that came
// back without having been asked of this program (it leaves those alone, as Kineto does).
namespace {

namespace api = pillion::cupti;

template <class Function>
Function function(const char* name) {
  static void* library = dlopen("libcupti.so.13", RTLD_NOW);
  void* found = library != nullptr ? dlsym(library, name) : nullptr;
  if (found == nullptr) {
    std::fprintf(stderr, "cupti_client: no %s: %s\n", name, dlerror());
    std::exit(1);
  }
  return reinterpret_cast<Function>(found);
}
#define CUPTI(name) function<api::name>("cupti" #name)

std::mutex g_mutex;
std::set<std::uint8_t*> g_buffers;
std::uint64_t g_records = 0, g_foreign = 0;
api::Subscriber g_subscriber = nullptr;
std::atomic<bool> g_teardown{false};

void requested(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  const std::lock_guard lock(g_mutex);
  *size = 64 << 10;
  *most = 0;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, *size));
  g_buffers.insert(*buffer);
}

void completed(void*, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  const std::lock_guard lock(g_mutex);
  if (g_buffers.erase(buffer) == 0) {
    ++g_foreign;
    return;
  }
  std::uint8_t* record = nullptr;
  const auto next = CUPTI(ActivityGetNextRecord);
  while (next(buffer, valid, &record) == api::kSuccess) ++g_records;
  std::free(buffer);
}

void callback(void*, api::CallbackDomain domain, std::uint32_t, const void* data) {
  if (domain != api::kDomainDriverApi) return;
  if (static_cast<const api::CallbackData*>(data)->callback_site != api::kApiExit) return;
  if (!g_teardown.exchange(false)) return;
  (void)CUPTI(Unsubscribe)(g_subscriber);
  (void)CUPTI(Finalize)();
}

api::Result subscribe() {
  char holder[64] = {};
  api::SubscriberParams params{sizeof params, "CUPTI for Kineto", holder, sizeof holder};
  const api::Result result =
      function<api::SubscribeV2>("cuptiSubscribe_v2")(&g_subscriber, callback, nullptr, &params);
  return result != api::kSuccess ? result
                                 : CUPTI(EnableCallback)(1, g_subscriber, api::kDomainDriverApi, 307);
}

api::Result record() {
  const api::Result result = CUPTI(ActivityRegisterCallbacks)(requested, completed);
  return result != api::kSuccess ? result : CUPTI(ActivityEnable)(api::kActivityConcurrentKernel);
}

api::Result stop() {
  const api::Result result = CUPTI(ActivityDisable)(api::kActivityConcurrentKernel);
  return result != api::kSuccess ? result : CUPTI(ActivityFlushAll)(1);
}

std::uint64_t realtime() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

api::Result obey(const std::string& command) {
  if (command == "profile-start") {
    const api::Result result = subscribe();
    return result != api::kSuccess ? result : record();
  }
  if (command == "profile-stop") {
    const api::Result result = stop();
    const char* teardown = std::getenv("TEARDOWN_CUPTI");
    if (teardown != nullptr && std::strcmp(teardown, "1") == 0) g_teardown = true;
    return result;
  }
  if (command == "record") return record();
  if (command == "stop") return stop();
  if (command == "steal") return CUPTI(ActivityRegisterCallbacks)(requested, completed);
  if (command == "clock") return CUPTI(ActivityRegisterTimestampCallback)(realtime);
  if (command == "disable") return CUPTI(ActivityDisable)(api::kActivityConcurrentKernel);
  if (command == "finalize") return CUPTI(Finalize)();
  std::fprintf(stderr, "cupti_client: what is '%s'\n", command.c_str());
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  const workload::Options options = workload::parse_options(argc, argv);
  workload::Device device;
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const std::uint64_t begin = workload::now_ns();
  std::uint64_t launches = 0;
  std::puts("ready");
  std::fflush(stdout);
  char line[64];
  while (!workload::stop_requested() && std::fgets(line, sizeof line, stdin) != nullptr) {
    line[std::strcspn(line, "\n")] = '\0';
    if (line[0] >= '0' && line[0] <= '9') {
      for (std::uint64_t left = std::strtoull(line, nullptr, 10); left > 0; --left) {
        CHECK(device.launch(launches++, stream, options.spin_ns));
      }
      CHECK(cuCtxSynchronize());
      std::printf("%llu\n", static_cast<unsigned long long>(launches));
    } else {
      const api::Result result = obey(line);
      const std::lock_guard lock(g_mutex);
      std::printf("%s %u records %llu foreign %llu\n", line, result,
                  static_cast<unsigned long long>(g_records), static_cast<unsigned long long>(g_foreign));
      g_records = g_foreign = 0;
    }
    std::fflush(stdout);
  }
  const double elapsed = workload::seconds_since(begin);
  CHECK(cuCtxSynchronize());
  workload::print_truth("cupti_client", launches, elapsed, device.counts());
}
