// SPDX-License-Identifier: Apache-2.0
#include "timeline/launch_table.h"

#include <cstring>

namespace pillion::timeline {

std::uint64_t LaunchTable::SiteHash::operator()(const Site& site) const {
  std::uint64_t words[sizeof(Site) / 8];
  std::memcpy(words, &site, sizeof(site));
  std::uint64_t hash = kHashSeed;
  for (const std::uint64_t word : words) hash = (hash ^ word) * 0x9e3779b97f4a7c15u + (hash >> 29);
  return mix64(hash);
}

std::uint32_t LaunchTable::add(const Site& site) {
  const auto [found, made] = numbers_.insert(site);
  if (made) {
    *found = static_cast<std::uint32_t>(sites_.size());
    sites_.push_back(site);
  }
  return *found;
}

std::uint32_t LaunchTable::number(SessionId session, const JoinedSample& launch, std::uint64_t context_key) {
  return number(session, launch, context_key, kRan);
}

std::uint32_t LaunchTable::pending(SessionId session, std::uint32_t device, const JoinedSample& launch,
                                   std::uint64_t context_key) {
  JoinedSample there = launch;
  there.device = device;
  return number(session, there, context_key, kPending);
}

std::uint32_t LaunchTable::number(SessionId session, const JoinedSample& launch, std::uint64_t context_key,
                                  State state) {
  Site site;
  site.where = launch.attribution == Attribution::context ? context_key : launch.stack;
  site.session = session;
  site.tid = launch.tid;
  site.device = launch.device;
  site.context = launch.context;
  site.stream = launch.stream;
  site.cbid = launch.cbid;
  site.kind = static_cast<std::uint8_t>(launch.kind);
  site.graph = launch.graph ? 1 : 0;
  site.attribution = static_cast<std::uint8_t>(launch.attribution);
  site.state = state;
  if (sites_.size() < max_) return add(site);
  if (const std::uint32_t* found = numbers_.find(site)) return *found;
  return merged(session, launch.device);
}

std::uint32_t LaunchTable::merged(SessionId session, std::uint32_t device) {
  Site site;
  site.session = session;
  site.device = device;
  site.attribution = static_cast<std::uint8_t>(Attribution::other);
  return add(site);
}

std::uint32_t LaunchTable::none(SessionId session, std::uint32_t device) {
  Site site;
  site.session = session;
  site.device = device;
  site.state = kNone;
  return add(site);
}

bool LaunchTable::is_merged(std::uint32_t number) const {
  return sites_[number].attribution == static_cast<std::uint8_t>(Attribution::other);
}

IdleSample LaunchTable::sample(std::uint32_t number) const {
  const Site& site = sites_[number];
  IdleSample out;
  out.session = site.session;
  out.ended = site.state == kRan;
  out.pending = site.state == kPending;
  JoinedSample& launch = out.launch;
  launch.tid = site.tid;
  launch.device = site.device;
  launch.context = site.context;
  launch.stream = site.stream;
  launch.cbid = site.cbid;
  launch.kind = static_cast<ExecutionKind>(site.kind);
  launch.graph = site.graph != 0;
  launch.attribution = static_cast<Attribution>(site.attribution);
  if (launch.attribution == Attribution::context) {
    out.context_key = site.where;
  } else {
    launch.stack = static_cast<StackId>(site.where);
  }
  return out;
}

void LaunchTable::clear() {
  numbers_.clear();
  sites_.clear();
}

}  // namespace pillion::timeline
