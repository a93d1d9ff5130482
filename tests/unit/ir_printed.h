// StableHLO text of the tests' programs. With TRANSMUTER_PRINT_DIR set, every program is also written there for
// tests/stablehlo_parse.py, which parses and verifies the text with a reader that isn't ours.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/strings.h"
#include "ir/print.h"

namespace transmuter::ir {

inline std::string printed(const std::string& name, const Program& program) {
  std::string text = print_stablehlo(program);
  if (const char* directory = std::getenv("TRANSMUTER_PRINT_DIR")) {
    static int count = 0;
    std::string path = str(directory, "/", count++, "_", name, ".mlir");
    std::replace(path.begin(), path.end(), ' ', '_');
    std::ofstream(path) << text;
  }
  return text;
}

}  // namespace transmuter::ir
