// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/flat_map.h"
#include "base/idle_data.h"
#include "base/window_data.h"
#include "records.h"

namespace pillion::timeline {

// Where launches were made, each place once, by number. Bounded: past `max` a launch is only known by its
// session and device. One owner thread.
class LaunchTable {
 public:
  explicit LaunchTable(std::size_t max) : max_(max) {}

  // Of `launch`, what it ran as (count, times, bytes, name, copy kind) makes no difference. `context_key`
  // counts with attribution context.
  [[nodiscard]] std::uint32_t number(SessionId session, const JoinedSample& launch,
                                     std::uint64_t context_key);
  // What stands for all that find no place: the merged launches of this session on this device.
  [[nodiscard]] std::uint32_t merged(SessionId session, std::uint32_t device);
  // A launch whose execution has not come, which may run on this device.
  [[nodiscard]] std::uint32_t pending(SessionId session, std::uint32_t device, const JoinedSample& launch,
                                      std::uint64_t context_key);
  // What stands for none: a gap that nothing ended.
  [[nodiscard]] std::uint32_t none(SessionId session, std::uint32_t device);

  [[nodiscard]] SessionId session(std::uint32_t number) const { return sites_[number].session; }
  [[nodiscard]] std::uint32_t device(std::uint32_t number) const { return sites_[number].device; }
  [[nodiscard]] std::uint32_t tid(std::uint32_t number) const { return sites_[number].tid; }
  [[nodiscard]] bool is_merged(std::uint32_t number) const;
  // With cause, edge, gaps and time still to be filled in.
  [[nodiscard]] IdleSample sample(std::uint32_t number) const;

  void clear();

 private:
  // No padding: hashed as six words.
  struct Site {
    std::uint64_t where = 0;  // exact: StackId; context: context key
    SessionId session = 0;
    std::uint32_t tid = 0, device = 0, context = 0, stream = 0, cbid = 0;
    std::uint32_t reserved_word = 0;
    std::uint8_t kind = 0, graph = 0, attribution = 0, state = 0;
    std::uint64_t reserved = 0;
    bool operator==(const Site&) const = default;
  };
  static_assert(sizeof(Site) == 48);
  // What has become of the launch.
  enum State : std::uint8_t { kRan, kPending, kNone };
  struct SiteHash {
    std::uint64_t operator()(const Site& site) const;
  };
  [[nodiscard]] std::uint32_t add(const Site& site);
  [[nodiscard]] std::uint32_t number(SessionId session, const JoinedSample& launch, std::uint64_t context_key,
                                     State state);

  const std::size_t max_;
  FlatMap<Site, std::uint32_t, SiteHash> numbers_;
  std::vector<Site> sites_;
};

}  // namespace pillion::timeline
