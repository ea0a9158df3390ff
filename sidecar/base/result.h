// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <tl/expected.hpp>

namespace pillion {

// What went wrong, in the words of an operation on an object. `number` is an errno value or 0.
// Errors cross stages as values; no exception does.
struct Error {
  std::string operation;  // "open", "parse maps"
  std::string object;     // the path, pid, parameter it was about
  int number = 0;
  std::string detail;  // what a person can do, or what was found instead

  [[nodiscard]] std::string message() const {
    std::string text = operation;
    if (!object.empty()) text += " " + object;
    if (number != 0) text += std::string(": ") + std::strerror(number);
    if (!detail.empty()) text += ": " + detail;
    return text;
  }
};

// std::expected is not in C++20; tl::expected has its interface, so it can be replaced by it one day.
template <typename T>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(std::string operation, std::string object,
                                                std::string detail) {
  return tl::make_unexpected(Error{std::move(operation), std::move(object), 0, std::move(detail)});
}

// Takes errno as it stands at the call.
[[nodiscard]] inline tl::unexpected<Error> fail_errno(std::string operation, std::string object) {
  const int number = errno;
  return tl::make_unexpected(Error{std::move(operation), std::move(object), number, {}});
}

}  // namespace pillion
