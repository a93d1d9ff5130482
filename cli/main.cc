#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <numeric>
#include <vector>

#include "commands.h"
#include "telemetry_options.h"
#include "transmuter/transmuter.h"

namespace transmuter::cli {

void EngineOptions::add_to(CLI::App& command) {
  command.add_option("--backend", backend, "cpu, reference, or pjrt[:PLUGIN][,OPTION=VALUE ...]")
      ->capture_default_str();
  command.add_option("--threads", threads, "threads to use; 0: one per core")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  command.add_flag("--no-passes", no_passes, "leave programs as traced");
  command
      .add_option("--compute-type", compute_type,
                  "f32: halves compute in f32; native: as the model says. Either way cpu rounds the activations of "
                  "MatMulNBits to eight bits where the model permits it (accuracy_level 4); reference never does")
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "native"}));
  command.add_option("--seed", seed, "of the random operators")->capture_default_str();
  command.add_option("--static", static_inputs,
                     "inputs (by name) whose values are known while tracing; another value makes another trace");
  // inspect prints a model's traces by that name.
  if (!command.get_option_no_throw("--trace")) add_trace_option(command);
}

CompileOptions EngineOptions::compile_options() const {
  CompileOptions options;
  options.backend = backend;
  options.threads = threads;
  options.passes = !no_passes;
  options.compute_type = compute_type;
  options.seed = seed;
  options.static_inputs = static_inputs;
  return options;
}

namespace {

// How many letters have to be put in, taken out or replaced to get from one word to the other.
size_t edits(const std::string& from, const std::string& to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < from.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < to.size(); ++j) {
      const size_t replaced = diagonal + (from[i] != to[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

// The first argument is meant as a command and is none: a sentence that says so, else nothing.
std::string unknown_command(const CLI::App& app, const std::string& word) {
  if (word.starts_with('-')) return "";
  std::string all, nearest;
  for (const CLI::App* command : app.get_subcommands({})) {
    const std::string name = command->get_name();
    if (name == word) return "";
    all += (all.empty() ? "" : ", ") + name;
    if (nearest.empty() || edits(word, name) < edits(word, nearest)) nearest = name;
  }
  const bool near = edits(word, nearest) <= 2 || nearest.starts_with(word);
  return "there is no command \"" + word + "\"" + (near ? "; did you mean " + nearest + "?" : "") + " (" + all + ")";
}

// The parser takes -1 for the largest number where an option counts something.
void refuse_negative_counts(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) {
    for (CLI::Option* option : command->get_options()) {
      if (!option->get_type_name().starts_with("UINT")) continue;
      option->check([](const std::string& text) { return text.starts_with('-') ? text + " is below 0" : ""; });
    }
  }
}

// What was printed has to arrive: a full disk is a failure.
void finish_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    throw Error(ErrorCode::io, "cannot write the results to standard output: make room, or send them elsewhere");
}

}  // namespace

}  // namespace transmuter::cli

// NOLINTNEXTLINE(bugprone-exception-escape): none that the options' set-up could throw is worth a sentence
int main(int argc, char** argv) {
  using namespace transmuter;
  ::setenv("TF_CPP_MIN_LOG_LEVEL", "2", 0);  // PJRT plugins write their progress to standard error otherwise
  CLI::App app("Runs ONNX models on any backend.\nExit codes: 0 ok, 1 failed, 2 usage.", "transmuter");
  app.set_version_flag("--version", "transmuter " TRANSMUTER_VERSION);
  app.require_subcommand(1);
  cli::add_run(app);
  cli::add_inspect(app);
  cli::add_test(app);
  cli::add_bench(app);
  cli::add_export(app);
  cli::add_ops(app);
  cli::add_tokenize(app);
  cli::add_embed(app);
  cli::add_classify(app);
  cli::add_ner(app);
  cli::add_fill_mask(app);
  cli::add_answer(app);
  cli::add_zero_shot(app);
  cli::add_rerank(app);
  cli::add_edit(app);
  cli::add_download(app);
  cli::add_generate(app);
  cli::add_chat(app);
  cli::add_summarize(app);
  cli::add_translate(app);
  cli::add_transcribe(app);
  cli::refuse_negative_counts(app);
  try {
    if (const std::string sentence = argc > 1 ? cli::unknown_command(app, argv[1]) : ""; !sentence.empty()) {
      std::fprintf(stderr, "transmuter: %s\n", sentence.c_str());
      return 2;
    }
    cli::log_if_asked();
    app.parse(argc, argv);
    cli::finish_output();
    cli::finish_trace();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const cli::Failed& failed) {
    return failed.exit_code;
  } catch (const Error& error) {
    std::fprintf(stderr, "transmuter: %s\n", error.what());
    return 1;
  } catch (const std::filesystem::filesystem_error& error) {
    std::fprintf(stderr, "transmuter: cannot read %s: %s\n", error.path1().c_str(), error.code().message().c_str());
    return 1;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "transmuter: out of memory\n");
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "transmuter: internal fault: %s\n", error.what());
    return 1;
  }
  return 0;
}
