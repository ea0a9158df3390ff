// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace pillion::http {

struct RawResponse {
  int status = 0;  // 0: the connection ended without an answer
  std::map<std::string, std::string> headers;
  std::string body;
};

// A client that sends what a test wants, byte for byte. Reads time out after 10 s.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port);

  // Returns false when the other side no longer takes it.
  bool send(std::string_view bytes);
  [[nodiscard]] RawResponse receive(bool head = false);  // `head`: the answer has no body

  RawResponse get(std::string_view target);

  void hang_up() { fd_.reset(); }
  void half_close();

  // The other side has closed: nothing but EOF comes.
  [[nodiscard]] bool at_end();

  [[nodiscard]] bool connected() const { return fd_.valid(); }

 private:
  [[nodiscard]] bool fill();

  UniqueFd fd_;
  std::string received_;
};

// "GET TARGET HTTP/1.1" with a Host header.
[[nodiscard]] std::string get_request(std::string_view target);

}  // namespace pillion::http
