// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "python_offsets.h"

namespace pillion::shim::test {

// A file of tests/data/python-offsets: what the headers of a CPython say.
struct PythonLayout {
  std::string name;  // "3.14", "3.14t"
  std::uint32_t version = 0;
  std::map<std::string, std::uint16_t>
      offsets;                          // by the names of kPythonOffsetFields; without the absent ones
  std::vector<std::uint8_t> published;  // _Py_DebugOffsets, from 3.13 on

  [[nodiscard]] static PythonLayout read(const std::string& name);

  // As the shim has it: kAbsent where the headers have no such field.
  [[nodiscard]] PythonOffsets table() const;
};

inline constexpr const char* kLayouts[] = {"3.9", "3.10", "3.11", "3.12", "3.13", "3.14"};

}  // namespace pillion::shim::test
