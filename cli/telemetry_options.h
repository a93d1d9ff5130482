// What the program tells of its work: --trace FILE.json, and TRANSMUTER_VERBOSE=1 on standard error.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace transmuter::cli {

// Listens from the moment the option is read, before the command loads its model.
void add_trace_option(CLI::App& command);
// Writes the file, if there is one to write. Throws Error(io).
void finish_trace();
// Where the environment asks for it: each event but those of memory and of hits as a line on standard error.
void log_if_asked();

}  // namespace transmuter::cli
