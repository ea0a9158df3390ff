// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/flat_map.h"
#include "base/stack_table.h"
#include "base/window_data.h"
#include "profile/builder.h"
#include "profile/frame_resolver.h"
#include "profile/profile.h"
#include "profile/text.h"

namespace pillion::profile {

// Makes the locations, functions and mappings of a profile, each once. One owner; `profile` and `resolver`
// outlive it. Location ids are those of the profile.
class StackBuilder {
 public:
  // The main program becomes mapping 1: pprof prints that one as the profile's file.
  StackBuilder(Profile& profile, TextTable& texts, FrameResolver& resolver, std::string_view main_program);

  [[nodiscard]] std::uint32_t pseudo(std::string_view name);
  [[nodiscard]] std::uint32_t kernel(TargetId target, std::string_view mangled);

  // A list of the application's frames, leaf first: those of the shim, CUPTI and libcuda in front of the call
  // into libcuda are left out, and a stack that is not rooted ends in a pseudo frame that says why. The
  // number means the list: equal lists have equal numbers. 0 is the empty list.
  [[nodiscard]] std::uint32_t stack(const TargetInput& of, StackId id);
  [[nodiscard]] std::uint32_t pseudo_stack(std::string_view name);
  // The list of the sample's launch, or a pseudo frame that says why there is none.
  [[nodiscard]] std::uint32_t of_launch(const TargetInput& of, const JoinedSample& sample);
  [[nodiscard]] const std::vector<std::uint32_t>& frames(std::uint32_t list) const { return *lists_[list]; }

  // Python frames, of the distinct ones asked for, whose code object never came.
  [[nodiscard]] std::uint64_t python_unnamed() const { return python_unnamed_; }

 private:
  [[nodiscard]] std::uint32_t frame(const TargetInput& of, const UnwoundFrame& frame);
  [[nodiscard]] std::uint32_t native_frame(TargetId target, const UnwoundFrame& frame);
  [[nodiscard]] std::uint32_t python_frame(SessionId session, const UnwoundFrame& frame);
  [[nodiscard]] std::uint32_t function(std::string_view name, std::string_view system_name,
                                       std::string_view file);
  [[nodiscard]] std::uint32_t add_location(Location location);
  [[nodiscard]] std::uint32_t mapping(const Module& module);
  [[nodiscard]] std::uint32_t list(std::vector<std::uint32_t> frames);

  struct FileInfo {
    bool known = false;
    bool capture = false;  // shim, CUPTI or libcuda
    std::uint32_t mapping = 0;
    std::uint64_t bias = 0;
    std::string name;  // without folders
  };
  const FileInfo& file(TargetId target, std::uint32_t file);
  [[nodiscard]] std::size_t first_application_frame(TargetId target, const std::vector<UnwoundFrame>& frames);

  // A process has some 100,000 stacks of 60 frames at worst: these two are looked up for each frame and
  // stack.
  struct FrameKey {
    std::uint64_t address = 0;
    std::uint32_t file = 0;
    std::uint32_t whose = 0;  // 0: the file's, the same everywhere; else a target, of Python a session
    bool is_return = false;
    FrameKind kind = FrameKind::native;
    bool operator==(const FrameKey&) const = default;
  };
  struct FrameHash {
    std::uint64_t operator()(const FrameKey& key) const {
      return mix64(mix64(key.address ^ kHashSeed) + ((std::uint64_t{key.file} << 32 | key.whose) << 1) +
                   key.is_return + (static_cast<std::uint64_t>(key.kind) << 56));
    }
  };
  struct ListHash {
    std::size_t operator()(const std::vector<std::uint32_t>& list) const {
      std::uint64_t hash = kHashSeed;
      for (const std::uint32_t id : list) hash = (hash ^ id) * 0x9e3779b97f4a7c15u + (hash >> 31);
      return mix64(hash);
    }
  };

  Profile& profile_;
  TextTable& texts_;
  FrameResolver& resolver_;
  TextId main_program_;
  bool main_program_seen_ = false;
  std::map<std::tuple<TextId, TextId, TextId>, std::uint32_t> functions_;
  std::unordered_map<std::uint32_t, std::uint32_t> pseudo_;                   // function -> location
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> kernels_;  // function, mapping -> location
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t>
      python_lines_;  // function, line -> location
  std::uint64_t python_unnamed_ = 0;
  FlatMap<FrameKey, std::uint32_t, FrameHash> frames_;
  std::map<std::pair<TargetId, std::uint32_t>, FileInfo> files_;
  std::map<std::pair<TextId, TextId>, std::uint32_t> mappings_;  // file, build-id
  // By session: stacks are numbered anew when a process is armed again.
  std::map<std::pair<SessionId, StackId>, std::uint32_t> stacks_;
  std::unordered_map<std::vector<std::uint32_t>, std::uint32_t, ListHash> list_ids_;
  std::vector<const std::vector<std::uint32_t>*> lists_;  // into list_ids_, whose nodes stay where they are
};

[[nodiscard]] const char* ending_name(StackEnding ending);

}  // namespace pillion::profile
