// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/result.h"
#include "session/file_channel.h"
#include "session/maps_assembly.h"
#include "unwind/file_source.h"
#include "unwind/maps_table.h"

namespace pillion::pipeline {

// The maps and files of every target, as its shim hands them over. Written by the attach thread, read by the
// unwind and build threads. Thread-safe. What is known of a target stays until forget(): its last window may
// still be built when the process is gone.
class TargetCode : public unwind::FileSource {
 public:
  using RequestMaps = std::function<void(TargetId)>;  // called on any thread; the maps come later

  // Keeps at most a quarter of the descriptors that this process may have by now. `same_files`: the targets
  // were started by this program and see the files that it sees, so that one that was gone before its files
  // were fetched can still be read.
  TargetCode(RequestMaps request_maps, bool same_files);

  void add(TargetId target, std::shared_ptr<session::FileChannel> files);
  void update(TargetId target, const session::MapsText& maps);
  void forget(TargetId target);

  // The newest maps; never null, empty for an unknown target.
  [[nodiscard]] std::shared_ptr<const unwind::MapsTable> maps(TargetId target) const;

  // Maps that were asked for after `taken_ns` (CLOCK_MONOTONIC), if they come within `patience`; null when
  // those at hand are that new already, or none come.
  [[nodiscard]] std::shared_ptr<const unwind::MapsTable> maps_newer_than(TargetId target,
                                                                         std::uint64_t taken_ns,
                                                                         std::chrono::milliseconds patience);

  // Files of the newest maps that are neither kept nor were opened; the first mapping of each, the last
  // first.
  [[nodiscard]] std::vector<unwind::Mapping> missing_files(TargetId target) const;
  // Keeps a file that was fetched ahead until open() asks for it, also when its process has gone by then.
  void keep(TargetId target, const unwind::Mapping& mapping, UniqueFd fd);

  Result<UniqueFd> open(TargetId target, const unwind::Mapping& mapping) override;

 private:
  static constexpr std::size_t kKeptMax = 1'024;  // files of one target

  // As the maps text tells files apart.
  using FileKey = std::tuple<std::uint64_t, std::uint64_t, std::string>;
  // Null: open() has handed it out, or tried to.
  using KeptFiles = std::map<FileKey, std::shared_ptr<const UniqueFd>>;

  struct Known {
    std::shared_ptr<session::FileChannel> files;
    std::shared_ptr<const unwind::MapsTable> maps;
    std::uint64_t asked_ns = 0;  // of the newest question
    std::uint64_t as_of_ns = 0;  // the maps are at least as new as this
    std::uint64_t arrivals = 0;
    KeptFiles kept;
  };

  [[nodiscard]] static FileKey key_of(const unwind::Mapping& mapping) {
    return {mapping.device, mapping.inode, mapping.path};
  }

  const RequestMaps request_maps_;
  const bool same_files_;
  const std::size_t shared_max_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<TargetId, Known> known_;
  // By the inode that a descriptor leads to: the processes of one image share one descriptor.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::weak_ptr<const UniqueFd>> shared_;
};

}  // namespace pillion::pipeline
