// SPDX-License-Identifier: Apache-2.0
#include "registration_watch.h"

namespace pillion::shim {
namespace {

constexpr RegistrationWatch::Loss kWell{nullptr, true, true, false};

// From this version on every thread fills a buffer of its own, so a DEVICE record asked for on ours has to
// bring a request for a buffer, whatever the GPU is at.
constexpr std::uint32_t kBufferPerThreadVersion = 130000;

constexpr std::uint64_t kQuietNs = 200'000'000;
constexpr std::uint64_t kProbeAgainNs = 1'000'000'000;  // after one that was answered
constexpr std::uint32_t kProbesMax = 3;                 // unanswered, a tick apart

// A queue on the GPU holds about a thousand launches, so a long kernel does not look like that.
constexpr std::uint64_t kSilentLaunches = 8192;
constexpr std::uint64_t kSilentNs = 3'000'000'000;

}  // namespace

void RegistrationWatch::begin(const CuptiApi& api, const Subscription& subscription, std::uint64_t now_ns) {
  *this = {};
  api_ = &api;
  subscriber_ = subscription.subscriber;
  kernels_ = (subscription.in_force & PILLION_KIND_KERNEL) != 0;
  clock_watched_ = clock_is_monotonic(api);
  silent_since_ns_ = now_ns;
}

RegistrationWatch::Loss RegistrationWatch::look(const Counts& counts, std::uint64_t now_ns) {
  std::uint32_t enabled = 1;
  if (api_->callback_state != nullptr) {
    const cupti::Result known =
        api_->callback_state(&enabled, subscriber_, cupti::kDomainDriverApi, kLaunchKernelCbid);
    if (known != cupti::kSuccess)
      return {"another CUPTI client finalized CUPTI, or took the subscriber, in the middle of the session",
              false, false, true};
    if (enabled == 0 && kernels_)  // else it never was on
      return {"another CUPTI client switched our callbacks off in the middle of the session", true, true,
              false};
  }
  if (clock_watched_ && !clock_is_monotonic(*api_))
    return {"another CUPTI client registered its own clock in the middle of the session", true, true, false};
  return kernels_ ? silence(counts, now_ns) : kWell;
}

RegistrationWatch::Loss RegistrationWatch::silence(const Counts& counts, std::uint64_t now_ns) {
  if (counts.executions != last_.executions || counts.launches == last_.launches) {
    last_ = counts;
    silent_since_ns_ = now_ns;
    probes_ = 0;
    return kWell;
  }
  const std::uint64_t quiet_ns = now_ns - silent_since_ns_;
  if (probes_ != 0 && counts.signs != probe_signs_) {
    probes_ = 0;
    probe_next_ns_ = now_ns + kProbeAgainNs;
  }
  if (probes_ >= kProbesMax)
    return {
        "another CUPTI client registered its buffer callbacks in the place of ours in the middle of the "
        "session",
        false, true, false};
  if (quiet_ns >= kQuietNs && now_ns >= probe_next_ns_) probe(counts, now_ns);
  if (quiet_ns >= kSilentNs && counts.launches - last_.launches >= kSilentLaunches) {
    const bool answers = probe_next_ns_ != 0;
    return {answers ? "another CUPTI client disabled our activity kinds in the middle of the session"
                    : "no records come any more: another CUPTI client has taken our registration",
            answers, true, false};
  }
  return kWell;
}

// The flush of the next tick brings it.
void RegistrationWatch::probe(const Counts& counts, std::uint64_t now_ns) {
  if (api_->version < kBufferPerThreadVersion || api_->enable_and_dump == nullptr) return;
  if (probes_++ == 0) probe_signs_ = counts.signs;
  probe_next_ns_ = now_ns;
  (void)api_->enable_and_dump(cupti::kActivityDevice);
}

}  // namespace pillion::shim
