// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "http/static_file.h"

namespace pillion::web {

// The page that a browser gets at "/", and what it loads: bundled from web/src when this program was built,
// and part of it. Empty in a build without the page (PILLION_WEB=OFF).
[[nodiscard]] std::span<const http::StaticFile> files();

}  // namespace pillion::web
