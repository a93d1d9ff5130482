// The backend `pjrt`: programs as StableHLO text, compiled and run by a PJRT plugin (XLA for CPUs, CUDA, TPUs, ...).
#pragma once

#include <memory>
#include <string>

#include "transmuter/backend.h"

namespace transmuter {

// `name`: "pjrt[:PLUGIN][,OPTION=VALUE ...]". Without a plugin the first that find_plugins() sees. Options: device=N,
// placement=cpu|reference (where ops with data-dependent sizes run), cache=DIR|off; any other goes to the plugin.
// Throws Error (plugin.h, client.h; invalid_input for what isn't KEY=VALUE; not_found where there is no plugin).
std::shared_ptr<Backend> make_pjrt_backend(const std::string& name);

}  // namespace transmuter
