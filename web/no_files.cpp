// SPDX-License-Identifier: Apache-2.0
// A build without the page.
#include "web/files.h"

namespace pillion::web {

std::span<const http::StaticFile> files() { return {}; }

}  // namespace pillion::web
