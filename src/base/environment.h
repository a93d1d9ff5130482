// Environment variables as texts.
#pragma once

#include <cstdlib>
#include <string>

namespace transmuter {

// $NAME; "" where it isn't set.
inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace transmuter
