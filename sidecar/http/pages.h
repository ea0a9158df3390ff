// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace pillion::http {

// Static HTML that says what this server answers, for curl and for a build without the page. Nothing is
// loaded from elsewhere.
[[nodiscard]] std::string_view home_page();
[[nodiscard]] std::string_view pprof_index_page();

}  // namespace pillion::http
