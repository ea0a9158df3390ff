// SPDX-License-Identifier: Apache-2.0
#include "python_layout.h"

#include <catch2/catch_test_macros.hpp>
#include <fstream>

namespace pillion::shim::test {

PythonLayout PythonLayout::read(const std::string& name) {
  PythonLayout layout;
  layout.name = name;
  std::ifstream file(std::string(PILLION_TESTS_DIR) + "/data/python-offsets/python-" + name + ".txt");
  REQUIRE(file.good());
  std::string key;
  std::string value;
  while (file >> key >> value) {
    if (key == "version") {
      layout.version = static_cast<std::uint32_t>(std::stoul(value));
    } else if (key == "published") {
      for (std::size_t at = 0; at + 1 < value.size(); at += 2)
        layout.published.push_back(static_cast<std::uint8_t>(std::stoul(value.substr(at, 2), nullptr, 16)));
    } else {
      layout.offsets[key] = static_cast<std::uint16_t>(std::stoul(value));
    }
  }
  return layout;
}

PythonOffsets PythonLayout::table() const {
  PythonOffsets table{};
  table.version = static_cast<std::uint16_t>(version);
  for (const PythonOffsetField& field : kPythonOffsetFields) {
    const auto found = offsets.find(field.name);
    table.*field.field = found == offsets.end() ? PythonOffsets::kAbsent : found->second;
  }
  return table;
}

}  // namespace pillion::shim::test
