#include "telemetry_options.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "transmuter/telemetry.h"

namespace transmuter::cli {
namespace {

// One a process, as the events are.
struct Listening {
  std::unique_ptr<telemetry::TraceFile> file;
  telemetry::Subscription log;
};

Listening& listening() {
  static Listening listening;
  return listening;
}

}  // namespace

void add_trace_option(CLI::App& command) {
  command.add_option_function<std::string>(
      "--trace", [](const std::string& path) { listening().file = std::make_unique<telemetry::TraceFile>(path); },
      "write what happens when to this file, each kernel included: ui.perfetto.dev opens it");
}

void finish_trace() {
  if (listening().file) listening().file->close();
}

void log_if_asked() {
  const char* verbose = std::getenv("TRANSMUTER_VERBOSE");
  if (!verbose || std::string_view(verbose) != "1") return;
  constexpr telemetry::Kinds kQuiet = telemetry::kinds({telemetry::Kind::memory, telemetry::Kind::hit});
  listening().log = telemetry::log_to([](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); },
                                      telemetry::kAll & ~kQuiet);
}

}  // namespace transmuter::cli
