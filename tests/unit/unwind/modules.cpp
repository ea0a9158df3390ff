// SPDX-License-Identifier: Apache-2.0
#include "modules.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

namespace pillion::test {

const std::vector<ShapeModule>& shape_modules() {
  static const std::vector<ShapeModule> modules = [] {
    std::vector<ShapeModule> loaded;
    std::istringstream paths(SHAPE_MODULES);
    for (std::string path; std::getline(paths, path, ':');) {
      void* library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
      if (library == nullptr) {
        std::fprintf(stderr, "%s\n", ::dlerror());
        std::abort();
      }
      loaded.push_back(reinterpret_cast<GetModule>(::dlsym(library, "get_shape_module"))());
    }
    return loaded;
  }();
  return modules;
}

void descend_from_here(unsigned long seed, unsigned depth, void (*leaf)(void*), void* argument) {
  const auto& modules = shape_modules();
  Descent descent{seed, depth, leaf, argument, modules.data(), static_cast<unsigned>(modules.size())};
  const ShapeModule& first = modules[seed % modules.size()];
  first.shapes[0](&descent);
}

}  // namespace pillion::test
