// The subcommands. Each adds itself to the application; its callback throws tm::Error, or Failed after printing its own
// report.
#pragma once

#include <string>
#include <vector>

#include "transmuter/transmuter.h"

namespace CLI {
class App;
}

namespace transmuter::cli {

struct Failed {
  int exit_code = 1;
};

// Options that every command which compiles a model has.
struct EngineOptions {
  std::string backend = "cpu";
  int threads = 0;
  bool no_passes = false;
  std::string compute_type = "f32";
  uint64_t seed = 0;
  std::vector<std::string> static_inputs;
  void add_to(CLI::App& command);
  CompileOptions compile_options() const;
};

void add_run(CLI::App& app);
void add_inspect(CLI::App& app);
void add_test(CLI::App& app);
void add_bench(CLI::App& app);
void add_export(CLI::App& app);
void add_ops(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_embed(CLI::App& app);
void add_classify(CLI::App& app);
void add_zero_shot(CLI::App& app);
void add_rerank(CLI::App& app);
void add_ner(CLI::App& app);
void add_fill_mask(CLI::App& app);
void add_answer(CLI::App& app);
void add_edit(CLI::App& app);
void add_download(CLI::App& app);
void add_generate(CLI::App& app);
void add_chat(CLI::App& app);
void add_summarize(CLI::App& app);
void add_translate(CLI::App& app);
void add_transcribe(CLI::App& app);

}  // namespace transmuter::cli
