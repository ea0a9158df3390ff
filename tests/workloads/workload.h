// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cuda_driver.h"

// What all workloads share: options, the device with its kernels, pacing, stopping, the truth at the end.
namespace workload {

struct Options {
  double seconds = 10;           // run for so long; 0: until a signal
  std::uint64_t iterations = 0;  // or stop after so many launches (replays, rounds) in all; 0: no limit
  double rate = 0;               // per second in all; 0: full speed
  int threads = 1;
  int streams = 1;
  int nodes = 20;                 // of a graph
  int graphs = 0;                 // checked: threads that replay a graph
  std::uint64_t round = 500;      // checked: operations between two looks at the result; 0: never look
  std::uint64_t spoil = 0;        // checked: each thread's round whose result is made wrong, to see it found
  std::string calm_file;          // checked: hardly work while this file exists
  std::uint64_t bytes = 1 << 20;  // of a copy
  std::uint64_t spin_ns = 0;      // 0: axpy and fill in turn; else spin kernels of so long
  double delay = 0;               // seconds before something named by the workload happens
  std::string plugin;             // dlopen_late
  std::string command;            // exec_other
  std::string before;             // adverse
  std::string start_file;         // launch nothing before this file exists; empty: at once
};

// --name value or --name=value. Anything unknown ends the program with status 2 and a list of what there is.
Options parse_options(int argc, char** argv);

// Returns once Options::start_file exists or a signal asks to stop.
void wait_for_start_file();
// The same for --end-file: after the truth is printed, before the program ends.
void wait_for_end_file();

// Ends the program with status 1, naming the call, when a driver call fails.
void check(CUresult result, const char* call);
#define CHECK(call) ::workload::check((call), #call)

// SIGTERM and SIGINT ask to stop; the first stop_requested() or install_stop_signals() sets the handlers.
void install_stop_signals();
bool stop_requested();
void request_stop();

// cuInit, the primary context of device 0 made current, the kernels, and memory for them to work on. Then
// waits for Options::start_file.
class Device {
 public:
  Device();
  CUcontext context() const { return context_; }
  // On another thread, before it launches.
  void make_current() const;
  // Enqueues axpy or fill (`which` even or odd), or spin when spin_ns is not 0. Counted, per kernel.
  CUresult launch(std::uint64_t which, CUstream stream, std::uint64_t spin_ns = 0);
  CUfunction axpy() const { return axpy_; }
  CUfunction fill() const { return fill_; }
  CUfunction spin() const { return spin_; }
  CUdeviceptr x() const { return x_; }
  CUdeviceptr y() const { return y_; }
  // Launches counted so far, by mangled kernel name.
  std::map<std::string, std::uint64_t> counts() const;

 private:
  CUcontext context_ = nullptr;
  CUfunction axpy_ = nullptr, fill_ = nullptr, spin_ = nullptr;
  CUdeviceptr x_ = 0, y_ = 0;
  struct alignas(64) Counter {
    std::atomic<std::uint64_t> value{0};
  };
  mutable Counter counts_[3];
};

// Lets `per_second` launches through, in bursts of a millisecond's worth, sleeping in between. 0: all at
// once.
class Pacer {
 public:
  Pacer(double per_second, double seconds);
  // Before each launch. False when the time is over or a signal came.
  bool next();
  std::uint64_t passed() const { return passed_; }

 private:
  bool wait();
  double per_ms_;
  std::uint64_t begin_ns_, end_ns_, tick_ = 0, allowed_ = 0, passed_ = 0;
};

std::uint64_t now_ns();
double seconds_since(std::uint64_t begin_ns);
void sleep_seconds(double seconds);  // ends early on a stop signal

// One JSON line on stdout: workload, launches, elapsed, gpu_ns (null on a real GPU), kernels with their
// launches, what `extra` adds (",\"key\":value"), and the double's whole truth (null on a real GPU).
// Synchronise before.
void print_truth(const std::string& name, std::uint64_t launches, double elapsed_s,
                 const std::map<std::string, std::uint64_t>& kernels, const std::string& extra = "");

extern const char kPtx[];  // the kernels' source

}  // namespace workload
