// SPDX-License-Identifier: Apache-2.0
#include "pipeline/target_code.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "pipeline/same_file.h"

namespace pillion::pipeline {
namespace {

constexpr std::chrono::milliseconds kFilePatience{2'000};

std::size_t quarter_of_descriptors() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<std::size_t>(limit.rlim_cur / 4) : 0;
}

}  // namespace

TargetCode::TargetCode(RequestMaps request_maps, bool same_files)
    : request_maps_(std::move(request_maps)),
      same_files_(same_files),
      shared_max_(quarter_of_descriptors()) {}

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
  std::erase_if(shared_, [](const auto& item) { return item.second.expired(); });
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

std::vector<unwind::Mapping> TargetCode::missing_files(TargetId target) const {
  std::vector<unwind::Mapping> missing;
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(target);
  if (found == known_.end() || !found->second.maps) return missing;
  std::set<FileKey> named;
  for (const auto& mapping : found->second.maps->mappings()) {
    if (mapping.kind != unwind::MappingKind::file || found->second.kept.contains(key_of(mapping))) continue;
    if (named.insert(key_of(mapping)).second) missing.push_back(mapping);
  }
  std::reverse(missing.begin(), missing.end());
  return missing;
}

void TargetCode::keep(TargetId target, const unwind::Mapping& mapping, UniqueFd fd) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return;
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(target);
  if (found == known_.end() || found->second.kept.size() >= kKeptMax) return;
  const std::pair<std::uint64_t, std::uint64_t> inode{status.st_dev, status.st_ino};
  if (shared_.size() >= shared_max_ && !shared_.contains(inode)) {
    std::erase_if(shared_, [](const auto& item) { return item.second.expired(); });
    if (shared_.size() >= shared_max_) return;
  }
  auto& place = shared_[inode];
  auto file = place.lock();
  if (!file) {
    file = std::make_shared<const UniqueFd>(std::move(fd));
    place = file;
  }
  found->second.kept.try_emplace(key_of(mapping), std::move(file));
}

Result<UniqueFd> TargetCode::open(TargetId target, const unwind::Mapping& mapping) {
  std::shared_ptr<session::FileChannel> files;
  {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(target);
    if (found != known_.end()) {
      files = found->second.files;
      const auto kept = std::exchange(found->second.kept[key_of(mapping)], nullptr);
      if (kept) {
        UniqueFd own(::fcntl(kept->get(), F_DUPFD_CLOEXEC, 0));
        if (own.valid()) return own;
      }
    }
  }
  auto received = files ? files->get(mapping.start, kFilePatience)
                        : Result<session::ReceivedFile>(fail("open", mapping.path, "the process has gone"));
  if (!received && same_files_) return open_same_file(mapping);
  if (!received) return tl::make_unexpected(received.error());
  // Another inode at the path is usual on overlay file systems, whose maps name the lower one: the unwinder
  // would lose every file of a container if it were refused here.
  return std::move(received->fd);
}

}  // namespace pillion::pipeline
