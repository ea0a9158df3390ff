// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cuda_driver.h"
#include "cupti_types.h"

// A minimal CUPTI client, as a profiler would be, that keeps what it is told. One per process.
struct Client {
  // Callbacks.
  std::atomic<std::uint64_t> enters{0}, exits{0};
  std::atomic<std::uint64_t> mismatched{0};  // EXIT without the correlation data its ENTER had set
  std::atomic<std::uint64_t> failed{0};      // EXIT with a result other than success
  std::mutex mutex;                          // guards all below
  std::set<std::uint32_t> launch_correlations;
  std::map<std::uint32_t, std::uint64_t> cbids;      // ENTERs
  std::map<std::uint32_t, std::uint64_t> resources;  // by cbid
  std::string symbol;
  std::vector<std::string> modules;  // bytes handed over by MODULE_PROFILED and MODULE_LOADED
  // Records.
  std::map<std::uint32_t, std::uint64_t> records;  // by kind
  std::map<std::uint32_t, std::size_t> sizes;      // by kind, their distance in the buffer
  std::map<std::uint32_t, std::uint64_t> bytes;    // by kind
  std::set<std::uint64_t> nodes;
  std::uint64_t ns = 0, unmatched = 0, zero_stamps = 0, outside = 0, foreign_buffers = 0, disordered = 0;
  std::uint64_t request_thread_wrong = 0, completions_on_own_thread = 0;
  std::uint32_t last_correlation = 0;

  pillion::cupti::Subscriber subscriber = nullptr;

  // Each returns the first result that is not success.
  pillion::cupti::Result subscribe();
  pillion::cupti::Result enable(bool kernels_only = false);
  pillion::cupti::Result attach();  // subscribe + enable
  std::uint64_t buffers_out() const;
};

Client& client();
void fail_if_error(CUresult result, const char* call);
#define CU(call) fail_if_error((call), #call)
