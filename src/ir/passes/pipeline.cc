#include "ir/passes/pipeline.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/strings.h"
#include "ir/passes/copier.h"
#include "ir/passes/passes.h"
#include "ir/passes/raising.h"
#include "ir/passes/verify.h"
#include "ir/print.h"
#include "transmuter/error.h"

namespace transmuter::ir {

namespace {

std::atomic<int> program_count{0};

std::string numbered(int64_t number) {
  std::string text = std::to_string(number);
  return std::string(text.size() < 3 ? 3 - text.size() : 0, '0') + text;
}

class Dump {
 public:
  explicit Dump(std::string directory) : directory_(std::move(directory)) {
    if (directory_.empty()) return;
    program_ = program_count++;
    std::filesystem::create_directories(directory_);
  }
  void write(const Program& program, const std::string& pass) {
    if (directory_.empty()) return;
    std::string path = str(directory_, "/", numbered(program_), "-", numbered(step_++), "-", pass, ".txt");
    std::ofstream file(path);
    file << to_text(program);
    if (!file) throw Error(ErrorCode::io, str("cannot write ", path));
  }

 private:
  std::string directory_;
  int program_ = 0;
  int step_ = 0;
};

}  // namespace

PipelineOptions pipeline_options_from_environment() {
  PipelineOptions options;
  if (const char* directory = std::getenv("TRANSMUTER_DUMP")) options.dump_directory = directory;
  if (const char* verify = std::getenv("TRANSMUTER_VERIFY")) options.verify = std::string(verify) == "1";
  if (const char* skip = std::getenv("TRANSMUTER_SKIP_PASSES")) {
    std::string names = skip;
    for (size_t start = 0; start <= names.size();) {
      size_t end = std::min(names.find(',', start), names.size());
      options.skip.push_back(names.substr(start, end - start));
      start = end + 1;
    }
  }
  return options;
}

std::vector<Pass> standard_passes() {
  return {{"simplify", simplify}, {"fold", fold}, {"cse", cse}, {"simplify2", simplify}, {"dce", dce}};
}

std::vector<Pass> raising_passes() {
  return {{"raise_norms", raise_norms},
          {"raise_activations", raise_activations},
          {"raise_softmax", raise_softmax},
          {"unflatten_products", unflatten_products},
          {"raise_dce", dce},
          {"raise_attention", raise_attention},
          {"raise_rotary", raise_rotary},
          {"fold_scales", fold_scales},
          {"raise_dce2", dce},
          {"hoist_activations", hoist_activations},
          {"before_repeats", before_repeats},
          {"raise_weight_dots", raise_weight_dots}};
}

namespace {

// Regions first.
Program apply(const Pass& pass, const Program& program) {
  if (std::all_of(program.ops().begin(), program.ops().end(), [](const Op& op) { return op.regions.empty(); }))
    return pass.run(program);
  Copier copier(program);
  for (const Op& op : program.ops())
    copier.copy(op, changed_regions(op, [&](const Program& region) { return apply(pass, region); }));
  return pass.run(copier.finish());
}

}  // namespace

Program run_passes(const Program& program, std::span<const Pass> passes, const PipelineOptions& options) {
  Dump dump(options.dump_directory);
  dump.write(program, "start");
  const Program* now = &program;
  Program made;
  for (const Pass& pass : passes) {
    if (std::find(options.skip.begin(), options.skip.end(), pass.name) != options.skip.end()) continue;
    try {
      made = apply(pass, *now);
      now = &made;
      dump.write(made, pass.name);
      if (options.verify) verify(made);
    } catch (Error& error) {
      error.in("pass " + pass.name);
      throw;
    }
  }
  if (now == &program) made = program;
  return made;
}

}  // namespace transmuter::ir
