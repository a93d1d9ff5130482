// The order of passes, and the switches for looking at them. The environment has its say too:
//   TRANSMUTER_DUMP=DIR           writes the program before the first pass and after each, DIR/PROGRAM-STEP-PASS.txt
//   TRANSMUTER_SKIP_PASSES=a,b    leaves these out
//   TRANSMUTER_VERIFY=1           verifies after each pass
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/program.h"

namespace transmuter::ir {

struct Pass {
  std::string name;
  std::function<Program(const Program&)> run;
};

struct PipelineOptions {
  std::vector<std::string> skip;
  std::string dump_directory;
  bool verify = false;
};
PipelineOptions pipeline_options_from_environment();

// simplify, fold, cse, simplify, dce: what every backend starts with.
std::vector<Pass> standard_passes();
// After the standard ones, and after autodiff: composites in place of what exporters wrote for them (raising.h).
std::vector<Pass> raising_passes();
// Runs passes in order. An Error gets the pass's name added.
Program run_passes(const Program& program, std::span<const Pass> passes,
                   const PipelineOptions& options = pipeline_options_from_environment());

}  // namespace transmuter::ir
