// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/file_table.h"
#include "base/python_code_table.h"
#include "pipeline/target_code.h"
#include "profile/frame_resolver.h"
#include "symbolize/symbolizer.h"

namespace pillion::pipeline {

// Answers build()'s questions about code from the symbolizer, the file table and the targets' maps. For one
// profile.
class CodeNames : public profile::FrameResolver {
 public:
  CodeNames(const TargetCode& code, const FileTable& files, symbolize::Symbolizer& symbolizer)
      : code_(code), files_(files), symbolizer_(symbolizer) {}

  // The Python code objects of a session; without them its Python frames have no names.
  void add(SessionId session, std::shared_ptr<const PythonCodeTable> codes) {
    python_[session] = std::move(codes);
  }

  std::vector<profile::SourceFrame> resolve(TargetId target, const UnwoundFrame& frame) override;
  std::optional<profile::SourceFrame> resolve_python(SessionId session, const UnwoundFrame& frame) override;
  std::optional<profile::Module> module(TargetId target, std::uint32_t file) override;

 private:
  const TargetCode& code_;
  const FileTable& files_;
  symbolize::Symbolizer& symbolizer_;
  std::map<SessionId, std::shared_ptr<const PythonCodeTable>> python_;
  std::map<TargetId, std::shared_ptr<const unwind::MapsTable>> maps_;  // as of the first question
};

}  // namespace pillion::pipeline
