// SPDX-License-Identifier: Apache-2.0
#include "workload.h"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#ifdef __SANITIZE_ADDRESS__
// Programs leave their GPU memory, streams and graphs to the driver when they end, and the double has them
// from malloc.
extern "C" const char* __lsan_default_options() { return "detect_leaks=0"; }
#endif

namespace workload {
namespace {

constexpr int kElements = 4096;
std::atomic<bool> g_stop{false};

void on_stop(int) { g_stop.store(true, std::memory_order_relaxed); }

void sleep_until_ns(std::uint64_t ns) {
  const timespec until{static_cast<time_t>(ns / 1'000'000'000u), static_cast<long>(ns % 1'000'000'000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR && !stop_requested()) {
  }
}

// The double's own account, where there is a double.
std::string simulated_truth() {
  using TruthJson = std::size_t (*)(char*, std::size_t);
  const auto json = reinterpret_cast<TruthJson>(dlsym(RTLD_DEFAULT, "simgpu_truth_json"));
  if (json == nullptr) return "null";
  std::string text(json(nullptr, 0) + 4096, '\0');  // it may grow meanwhile
  text.resize(json(text.data(), text.size()));
  return text;
}

std::string simulated_gpu_ns() {
  using GpuNs = std::uint64_t (*)();
  const auto gpu_ns = reinterpret_cast<GpuNs>(dlsym(RTLD_DEFAULT, "simgpu_gpu_ns"));
  return gpu_ns != nullptr ? std::to_string(gpu_ns()) : "null";
}

}  // namespace

void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  std::fprintf(stderr, "%s: %s (%d)\n", call, name != nullptr ? name : "?", result);
  std::exit(1);
}

void install_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_stop;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

bool stop_requested() { return g_stop.load(std::memory_order_relaxed); }
void request_stop() { g_stop.store(true, std::memory_order_relaxed); }

Device::Device() {
  install_stop_signals();
  CHECK(cuInit(0));
  CUdevice device = 0;
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context_, device));
  CHECK(cuCtxSetCurrent(context_));
  CUmodule module = nullptr;
  CHECK(cuModuleLoadData(&module, kPtx));
  CHECK(cuModuleGetFunction(&axpy_, module, "_Z4axpyifPKfPf"));
  CHECK(cuModuleGetFunction(&fill_, module, "_Z4fillPfif"));
  CHECK(cuModuleGetFunction(&spin_, module, "_Z4spiny"));
  CHECK(cuMemAlloc_v2(&x_, kElements * sizeof(float)));
  CHECK(cuMemAlloc_v2(&y_, kElements * sizeof(float)));
  wait_for_start_file();
}

void Device::make_current() const { CHECK(cuCtxSetCurrent(context_)); }

CUresult Device::launch(std::uint64_t which, CUstream stream, std::uint64_t spin_ns) {
  int elements = kElements;
  float value = 1.5F;
  CUdeviceptr x = x_;
  CUdeviceptr y = y_;
  CUresult result = CUDA_SUCCESS;
  int counter = 0;
  if (spin_ns != 0) {
    void* parameters[] = {&spin_ns};
    result = cuLaunchKernel(spin_, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
    counter = 2;
  } else if (which % 2 == 0) {
    void* parameters[] = {&elements, &value, &x, &y};
    result = cuLaunchKernel(axpy_, kElements / 256, 1, 1, 256, 1, 1, 0, stream, parameters, nullptr);
  } else {
    void* parameters[] = {&x, &elements, &value};
    result = cuLaunchKernel(fill_, kElements / 256, 1, 1, 256, 1, 1, 0, stream, parameters, nullptr);
    counter = 1;
  }
  if (result == CUDA_SUCCESS) counts_[counter].value.fetch_add(1, std::memory_order_relaxed);
  return result;
}

std::map<std::string, std::uint64_t> Device::counts() const {
  return {{"_Z4axpyifPKfPf", counts_[0].value},
          {"_Z4fillPfif", counts_[1].value},
          {"_Z4spiny", counts_[2].value}};
}

std::uint64_t now_ns() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<std::uint64_t>(ts.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(ts.tv_nsec);
}

double seconds_since(std::uint64_t begin_ns) { return static_cast<double>(now_ns() - begin_ns) * 1e-9; }

void sleep_seconds(double seconds) {
  if (seconds > 0) sleep_until_ns(now_ns() + static_cast<std::uint64_t>(seconds * 1e9));
}

Pacer::Pacer(double per_second, double seconds)
    : per_ms_(per_second / 1000),
      begin_ns_(now_ns()),
      end_ns_(seconds > 0 ? begin_ns_ + static_cast<std::uint64_t>(seconds * 1e9) : ~std::uint64_t{0}) {}

bool Pacer::next() {
  if (passed_ >= allowed_ && !wait()) return false;
  ++passed_;
  return true;
}

// Grants the next burst. At full speed the clock and the stop flag are looked at once per burst.
bool Pacer::wait() {
  if (per_ms_ <= 0) {
    allowed_ += 64;
    return now_ns() < end_ns_ && !stop_requested();
  }
  while (passed_ >= allowed_) {
    const std::uint64_t due = begin_ns_ + tick_ * 1'000'000;
    if (due >= end_ns_ || stop_requested()) return false;
    if (due > now_ns()) sleep_until_ns(due);
    ++tick_;
    allowed_ = static_cast<std::uint64_t>(per_ms_ * static_cast<double>(tick_) + 1e-6);
  }
  return true;
}

void print_truth(const std::string& name, std::uint64_t launches, double elapsed_s,
                 const std::map<std::string, std::uint64_t>& kernels, const std::string& extra) {
  std::string text;
  for (const auto& [kernel, count] : kernels) {
    if (count == 0) continue;
    text += (text.empty() ? "\"" : ",\"") + kernel + "\":{\"launches\":" + std::to_string(count) + "}";
  }
  std::printf(
      "{\"workload\":\"%s\",\"launches\":%llu,\"elapsed_s\":%.3f,\"gpu_ns\":%s,\"kernels\":{%s}%s,\"simgpu\":"
      "%s}\n",
      name.c_str(), static_cast<unsigned long long>(launches), elapsed_s, simulated_gpu_ns().c_str(),
      text.c_str(), extra.c_str(), simulated_truth().c_str());
  std::fflush(stdout);
  wait_for_end_file();
}

}  // namespace workload
