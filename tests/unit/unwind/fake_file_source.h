// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>

#include <map>
#include <string>

#include "unwind/file_source.h"

namespace pillion::test {

// Opens a mapping's path in this process's own file system, or what it was told to give instead.
class FakeFileSource : public unwind::FileSource {
 public:
  Result<UniqueFd> open(TargetId, const unwind::Mapping& mapping) override {
    ++opened;
    const auto found = instead.find(mapping.path);
    const std::string& path = found == instead.end() ? mapping.path : found->second;
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) return fail_errno("open", path);
    return fd;
  }

  std::map<std::string, std::string> instead;  // a path that does not exist makes open() fail
  int opened = 0;
};

}  // namespace pillion::test
