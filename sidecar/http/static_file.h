// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace pillion::http {

// A file that is served as it is, to everybody. Points into memory that outlives the server: the program's
// own.
struct StaticFile {
  std::string_view path;  // as in the request: "/", "/web/page.js"
  std::string_view content_type;
  std::string_view body;
};

}  // namespace pillion::http
