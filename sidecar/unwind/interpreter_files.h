// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/file_table.h"
#include "unwind/python_splice.h"

namespace pillion::unwind {

// InterpreterCode by the names and symbols of the mapped files. Each file is looked at once. One owner
// thread.
class InterpreterFiles : public InterpreterCode {
 public:
  explicit InterpreterFiles(const FileTable& files) : files_(files) {}

  bool is_interpreter(std::uint32_t file) override;
  bool is_program(std::uint32_t file) override;
  bool is_eval_loop(const UnwoundFrame& frame) override;
  bool is_greenlet(std::uint32_t file) override;

 private:
  struct Range {
    std::uint64_t start = 0;
    std::uint64_t bytes = 0;
  };
  struct Known {
    bool interpreter = false;
    bool greenlet = false;
    bool program = false;
    bool searched = false;
    std::vector<Range> eval_loop;
  };
  Known& known(std::uint32_t file);
  void search(std::uint32_t file, Known& known) const;

  const FileTable& files_;
  std::map<std::uint32_t, Known> known_;  // as many as the table has at most
};

}  // namespace pillion::unwind
