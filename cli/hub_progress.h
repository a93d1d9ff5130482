// Models that are named by their repository on the hub, and what is shown while they are downloaded.
#pragma once

#include <string>

#include "transmuter/hub.h"

namespace transmuter::cli {

// A bar on standard error where that is a terminal ($HF_HUB_DISABLE_PROGRESS_BARS=1: never).
HubOptions with_progress(HubOptions options = {});

// hf:REPO[@REVISION][/FILE] as a path in the hub's cache; everything else as it is.
std::string local_path(const std::string& text);
std::string local_folder(const std::string& text, const std::string& dtype = "");

}  // namespace transmuter::cli
