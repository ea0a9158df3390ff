// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace pillion::exporting {

// A file with these bytes under /tmp, removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view bytes) {
    std::array<char, 32> path{"/tmp/pillion-export-XXXXXX"};
    const int fd = ::mkstemp(path.data());
    REQUIRE(fd >= 0);
    path_ = path.data();
    std::ofstream(path_, std::ios::binary) << bytes;
    ::close(fd);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// What a shell command printed; the test fails unless it exits with 0.
inline std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string out;
  std::array<char, 4096> piece{};
  while (const std::size_t n = std::fread(piece.data(), 1, piece.size(), pipe)) out.append(piece.data(), n);
  const int status = ::pclose(pipe);
  INFO(command << "\n" << out);
  REQUIRE(status == 0);
  return out;
}

// Compares with tests/golden/NAME from the first line that begins with `from`; PILLION_UPDATE_GOLDEN=1 in the
// environment writes the file anew instead.
inline void check_golden(const std::string& name, std::string text, std::string_view from = {}) {
  if (!from.empty()) {
    const auto start = text.find(from);
    REQUIRE(start != std::string::npos);
    text.erase(0, start);
  }
  const std::string path = std::string(PILLION_TESTS_DIR) + "/golden/" + name;
  if (std::getenv("PILLION_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  const std::string expected{std::istreambuf_iterator<char>(file), {}};
  CHECK(text == expected);
}

}  // namespace pillion::exporting
