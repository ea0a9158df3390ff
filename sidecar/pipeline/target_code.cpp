// SPDX-License-Identifier: Apache-2.0
#include "pipeline/target_code.h"

#include "base/clock.h"

namespace pillion::pipeline {
namespace {

constexpr std::chrono::milliseconds kFilePatience{2'000};

}  // namespace

void TargetCode::add(TargetId target, std::shared_ptr<session::FileChannel> files) {
  const std::lock_guard lock(mutex_);
  known_[target].files = std::move(files);
}

void TargetCode::update(TargetId target, const session::MapsText& maps) {
  auto table = std::make_shared<const unwind::MapsTable>(unwind::MapsTable::parse(maps.text));
  {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(target);
    if (found == known_.end()) return;
    found->second.maps = std::move(table);
    found->second.as_of_ns = found->second.asked_ns;
    ++found->second.arrivals;
  }
  arrived_.notify_all();
}

void TargetCode::forget(TargetId target) {
  const std::lock_guard lock(mutex_);
  known_.erase(target);
}

std::shared_ptr<const unwind::MapsTable> TargetCode::maps(TargetId target) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(target);
  if (found == known_.end() || !found->second.maps) return std::make_shared<const unwind::MapsTable>();
  return found->second.maps;
}

std::shared_ptr<const unwind::MapsTable> TargetCode::maps_newer_than(TargetId target, std::uint64_t taken_ns,
                                                                     std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  auto found = known_.find(target);
  if (found == known_.end()) return nullptr;
  if (found->second.maps && found->second.as_of_ns > taken_ns) return nullptr;
  found->second.asked_ns = monotonic_ns();
  const std::uint64_t heard = found->second.arrivals;
  lock.unlock();
  request_maps_(target);
  lock.lock();
  arrived_.wait_for(lock, patience, [&] {
    found = known_.find(target);
    return found == known_.end() || found->second.arrivals != heard;
  });
  if (found == known_.end() || found->second.arrivals == heard) return nullptr;
  return found->second.maps;
}

Result<UniqueFd> TargetCode::open(TargetId target, const unwind::Mapping& mapping) {
  std::shared_ptr<session::FileChannel> files;
  {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(target);
    if (found != known_.end()) files = found->second.files;
  }
  if (!files) return fail("open", mapping.path, "the process has gone");
  auto received = files->get(mapping.start, kFilePatience);
  if (!received) return tl::make_unexpected(received.error());
  // Another inode at the path is usual on overlay file systems, whose maps name the lower one: the unwinder
  // would lose every file of a container if it were refused here.
  return std::move(received->fd);
}

}  // namespace pillion::pipeline
