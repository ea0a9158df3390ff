// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/flat_map.h"
#include "records.h"

namespace pillion {

// The Python code objects of one target session, by the shim's number: the drain adds, the profile asks when
// it is built. An id keeps its first meaning: a shim sends a code again only to be sure that it came.
//
// Thread-safe. Bounded: past a limit add() leaves the code out and counts it.
class PythonCodeTable {
 public:
  struct Limits {
    std::size_t codes_max = 65'536;
    std::size_t bytes_max = 32u << 20;  // of names and line tables
  };

  PythonCodeTable() = default;
  explicit PythonCodeTable(Limits limits) : limits_(limits) {}

  void add(RawPythonCode code);
  // Null: it has not come, or was left out.
  [[nodiscard]] std::shared_ptr<const RawPythonCode> find(std::uint32_t id) const;

  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::uint64_t refused() const;

 private:
  const Limits limits_{};
  mutable std::mutex mutex_;
  FlatMap<std::uint32_t, std::shared_ptr<const RawPythonCode>> codes_;
  std::size_t bytes_ = 0;
  std::uint64_t refused_ = 0;
};

}  // namespace pillion
