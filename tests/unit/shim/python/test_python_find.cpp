// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "abi/pillion_abi.h"
#include "python_find.h"

using namespace pillion::shim;

namespace {

struct Found {
  bool fits;
  Interpreter interpreter;
  PythonFinding finding;
};

Found look() {
  Found found{};
  found.fits = find_python(&found.interpreter, &found.finding);
  return found;
}

// With a library of this name loaded, as a program that embeds an interpreter has it.
Found look_with(const std::string& variant) {
  const std::string path = std::string(PILLION_FAKE_PYTHONS) + "/libfakepython_" + variant + ".so";
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  const Found found = look();
  ::dlclose(library);
  // Who is refused is not held.
  void* left = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  CHECK((left != nullptr) == found.fits);
  if (left != nullptr) ::dlclose(left);
  return found;
}

}  // namespace

TEST_CASE("no interpreter, and those that are refused, each by its reason") {
  const Found none = look();
  CHECK_FALSE(none.fits);
  CHECK(none.finding.state == PILLION_PYTHON_NONE);
  CHECK(none.finding.version == 0);

  struct Row {
    const char* variant;
    std::uint32_t state;
    const char* text;
  };
  const Row rows[] = {
      {"old", PILLION_PYTHON_VERSION, "CPython 3.8.20: frames are known of releases of 3.9 to 3.14"},
      {"new", PILLION_PYTHON_VERSION, "CPython 3.15.0: frames are known of releases of 3.9 to 3.14"},
      {"beta", PILLION_PYTHON_VERSION, "CPython 3.13.0: frames are known of releases of 3.9 to 3.14"},
      {"debug", PILLION_PYTHON_DEBUG_BUILD, "CPython 3.13.0: a debug build, which has other structures"},
      {"free_threaded", PILLION_PYTHON_FREE_THREADED,
       "CPython 3.13.0: a free-threaded build, which is not supported"},
      {"moved", PILLION_PYTHON_OFFSETS_DIFFER,
       "CPython 3.13.0: _Py_DebugOffsets has another value for instr_ptr"},
      {"incomplete", PILLION_PYTHON_INCOMPLETE, "CPython 3.13.0: it does not export PyCode_Type"},
  };
  for (const Row& row : rows) {
    INFO(row.variant);
    const Found found = look_with(row.variant);
    CHECK_FALSE(found.fits);
    CHECK(found.finding.state == row.state);
    CHECK(std::string(found.finding.text) == row.text);
  }
}

TEST_CASE("an interpreter that is loaded locally is found and stays") {
  const Found found = look_with("good");
  CHECK(found.fits);
  CHECK(found.finding.state == PILLION_PYTHON_IN_FORCE);
  CHECK(found.finding.version == 0x030d00f0);
  CHECK(std::string(found.finding.text).empty());
  CHECK(found.interpreter.offsets == python_offsets(0x030d));
  CHECK(found.interpreter.code_type != 0);
}
