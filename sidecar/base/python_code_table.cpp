// SPDX-License-Identifier: Apache-2.0
#include "base/python_code_table.h"

#include <utility>

namespace pillion {

void PythonCodeTable::add(RawPythonCode code) {
  const std::size_t bytes = code.qualname.size() + code.filename.size() + code.line_table.size();
  const std::lock_guard lock(mutex_);
  if (code.id == 0 || codes_.find(code.id) != nullptr) return;
  if (codes_.size() >= limits_.codes_max || bytes > limits_.bytes_max - bytes_) {
    ++refused_;
    return;
  }
  bytes_ += bytes;
  const std::uint32_t id = code.id;
  *codes_.insert(id).first = std::make_shared<const RawPythonCode>(std::move(code));
}

std::shared_ptr<const RawPythonCode> PythonCodeTable::find(std::uint32_t id) const {
  const std::lock_guard lock(mutex_);
  const auto* found = codes_.find(id);
  return found == nullptr ? nullptr : *found;
}

std::size_t PythonCodeTable::size() const {
  const std::lock_guard lock(mutex_);
  return codes_.size();
}

std::uint64_t PythonCodeTable::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

}  // namespace pillion
