#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <new>

#include "commands.h"
#include "transmuter/transmuter.h"

namespace transmuter::cli {

void EngineOptions::add_to(CLI::App& command) {
  command.add_option("--backend", backend, "cpu, reference")->capture_default_str();
  command.add_option("--threads", threads, "threads to use; 0: one per core")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  command.add_flag("--no-passes", no_passes, "leave programs as traced");
  command.add_option("--compute-type", compute_type, "f32: halves compute in f32; native: as the model says")
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "native"}));
}

}  // namespace transmuter::cli

int main(int argc, char** argv) {
  using namespace transmuter;
  CLI::App app("Runs ONNX models on any backend.\nExit codes: 0 ok, 1 failed, 2 usage.", "transmuter");
  app.require_subcommand(1);
  cli::add_run(app);
  cli::add_inspect(app);
  cli::add_test(app);
  cli::add_bench(app);
  cli::add_export(app);
  cli::add_ops(app);
  cli::add_embed(app);
  try {
    app.parse(argc, argv);
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
