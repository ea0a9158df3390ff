// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "common/knobs.h"
#include "cuda/call.h"
#include "cuda/clock.h"
#include "cuda/stream.h"
#include "simgpu_interface.h"

// What really happened, for tests to compare with. Everything put on a stream counts, with its full duration.
namespace simgpu {
namespace {

constexpr const char* kCopyNames[16] = {"unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA",
                                        "DtoD",    "HtoH", "PtoP", "11",   "12",   "13",   "14",   "15"};

std::mutex g_waits_mutex;
std::map<std::string, Tally>& g_waits =
    *new std::map<std::string, Tally>;  // leaked: threads wait until the end

void add(Tally& to, const Tally& from) {
  to.count += from.count;
  to.ns += from.ns;
  to.bytes += from.bytes;
}

void add(StreamTruth& to, const StreamTruth& from) {
  if (to.kernels.size() < from.kernels.size()) to.kernels.resize(from.kernels.size());
  for (std::size_t i = 0; i < from.kernels.size(); ++i) add(to.kernels[i], from.kernels[i]);
  for (std::size_t i = 0; i < 16; ++i) add(to.copies[i], from.copies[i]);
  add(to.sets, from.sets);
  to.kernel_launches += from.kernel_launches;
  to.graph_launches += from.graph_launches;
  to.host_functions += from.host_functions;
}

std::string number(std::uint64_t value) { return std::to_string(value); }

std::string tally_json(const Tally& tally) {
  return "{\"count\":" + number(tally.count) + ",\"ns\":" + number(tally.ns) +
         ",\"bytes\":" + number(tally.bytes) + "}";
}

// The members that the whole and each stream have in common.
std::string body_json(const StreamTruth& truth, const std::vector<std::string>& names) {
  Tally all_kernels, all;
  std::string kernels, copies;
  for (std::size_t i = 0; i < truth.kernels.size(); ++i) {
    if (truth.kernels[i].count == 0) continue;
    add(all_kernels, truth.kernels[i]);
    kernels += (kernels.empty() ? "\"" : ",\"") + names[i] + "\":" + tally_json(truth.kernels[i]);
  }
  add(all, all_kernels);
  for (std::size_t i = 0; i < 16; ++i) {
    if (truth.copies[i].count == 0) continue;
    add(all, truth.copies[i]);
    copies +=
        (copies.empty() ? "\"" : ",\"") + std::string(kCopyNames[i]) + "\":" + tally_json(truth.copies[i]);
  }
  add(all, truth.sets);
  return "\"launches\":" + number(truth.kernel_launches) +
         ",\"graph_launches\":" + number(truth.graph_launches) +
         ",\"host_functions\":" + number(truth.host_functions) + ",\"executions\":" + number(all.count) +
         ",\"gpu_ns\":" + number(all.ns) + ",\"kernel_executions\":" + number(all_kernels.count) +
         ",\"kernel_ns\":" + number(all_kernels.ns) + ",\"kernels\":{" + kernels + "},\"copies\":{" + copies +
         "},\"sets\":" + tally_json(truth.sets);
}

std::string modules_json() {
  std::string text;
  for (CUmodule module : all_modules()) {
    text += (text.empty() ? "" : ",") + std::string("{\"id\":") + number(module->id) +
            ",\"bytes\":" + number(module->cubin.size()) +
            ",\"crc\":" + number(simgpu_cubin_crc(module->cubin.data(), module->cubin.size())) +
            ",\"loaded\":" + (module->loaded ? "true" : "false") + "}";
  }
  return text;
}

std::string waits_json() {
  const std::lock_guard lock(g_waits_mutex);
  std::string text;
  for (const auto& [name, tally] : g_waits)
    text += (text.empty() ? "\"" : ",\"") + name + "\":" + tally_json(tally);
  return text;
}

std::string truth_json() {
  StreamTruth total;
  std::string streams;
  std::uint64_t last_end = 0;
  const std::vector<CUstream> list = streams_of(nullptr);
  std::vector<StreamTruth> parts;
  for (CUstream stream : list) {
    const std::lock_guard lock(stream->mutex);
    last_end = std::max(last_end, stream->last_end_ns);
    parts.push_back(stream->truth);
    add(total, stream->truth);
  }
  const std::vector<std::string> names = all_kernel_names();
  for (std::size_t i = 0; i < list.size(); ++i) {
    streams += (i == 0 ? "" : ",") + std::string("{\"device\":") +
               number(static_cast<std::uint64_t>(list[i]->context->device)) +
               ",\"context\":" + number(list[i]->context->id) + ",\"stream\":" + number(list[i]->id) + "," +
               body_json(parts[i], names) + "}";
  }
  return "{\"simulated\":true,\"pid\":" + number(static_cast<std::uint64_t>(getpid())) +
         ",\"now_ns\":" + number(now_ns()) + ",\"last_end_ns\":" + number(last_end) +
         ",\"failed_launches\":" + number(g_failed_launches.load()) + "," + body_json(total, names) +
         ",\"waits\":{" + waits_json() + "},\"modules\":[" + modules_json() + "],\"streams\":[" + streams +
         "]}";
}

// %p in SIMGPU_TRUTH stands for the pid: several processes, several files.
std::string truth_path() {
  std::string path = knob_text("SIMGPU_TRUTH");
  const std::size_t at = path.find("%p");
  if (at != std::string::npos) path.replace(at, 2, std::to_string(getpid()));
  return path;
}

// At the exit of a process that used CUDA, and of no forked child of it.
struct WriteAtExit {
  ~WriteAtExit() {
    if (g_ready.load(std::memory_order_acquire)) simgpu_truth_write();
  }
} g_write_at_exit;

}  // namespace

void note_wait(const char* name, std::uint64_t start_ns, std::uint64_t end_ns) {
  const std::lock_guard lock(g_waits_mutex);
  Tally& tally = g_waits[name];
  tally.count += 1;
  tally.ns += end_ns - start_ns;
}

}  // namespace simgpu

extern "C" {

size_t simgpu_truth_json(char* text, size_t capacity) {
  const std::string json = simgpu::truth_json();
  if (capacity > 0) {
    const size_t copied = std::min(json.size(), capacity - 1);
    std::memcpy(text, json.data(), copied);
    text[copied] = '\0';
  }
  return json.size();
}

uint64_t simgpu_gpu_ns(void) {
  uint64_t ns = 0;
  for (CUstream stream : simgpu::streams_of(nullptr)) {
    const std::lock_guard lock(stream->mutex);
    for (const simgpu::Tally& tally : stream->truth.kernels) ns += tally.ns;
    for (const simgpu::Tally& tally : stream->truth.copies) ns += tally.ns;
    ns += stream->truth.sets.ns;
  }
  return ns;
}

int simgpu_truth_write(void) {
  const std::string path = simgpu::truth_path();
  if (path.empty()) return -1;
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return -1;
  const std::string json = simgpu::truth_json() + "\n";
  const bool wrote = std::fwrite(json.data(), 1, json.size(), file) == json.size();
  return std::fclose(file) == 0 && wrote ? 0 : -1;
}
}
