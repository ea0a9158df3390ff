// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <string>

#include "golden.h"

namespace pillion::exporting {

// Empty when the document follows the schema, else what is wrong with it.
inline std::string complaints(const std::string& document) {
  if (std::system("python3 -c 'import jsonschema' >/dev/null 2>&1") != 0) {
    SKIP("no python3-jsonschema: it is what validates the schema here");
  }
  const TemporaryFile file(document);
  const std::string script =
      "import json,jsonschema,sys\n"
      "schema=json.load(open(sys.argv[1]))\n"
      "jsonschema.Draft7Validator.check_schema(schema)\n"
      "for e in jsonschema.Draft7Validator(schema).iter_errors(json.load(open(sys.argv[2]))): "
      "print(e.message[:300])\n";
  const TemporaryFile program(script);
  return output_of("python3 " + program.path() + " " + PILLION_SCHEMA + " " + file.path() + " 2>&1");
}

}  // namespace pillion::exporting
