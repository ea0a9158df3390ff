// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "http/connections.h"
#include "http/router.h"

namespace pillion::http {

// One request and its answer: cpp-httplib parses the head that Connections collected and writes the response,
// the router decides what it is. Only exchange.cpp includes httplib.h.
class Exchange {
 public:
  Exchange(Router& router, Surface surface);
  ~Exchange();

  // Called on a worker; blocks until the answer is written or writing has failed. Returns whether the
  // connection may be kept.
  [[nodiscard]] bool serve(Connection& connection);

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace pillion::http
