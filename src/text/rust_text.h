// Text to and from the Rust archive.
#pragma once

#include <string>
#include <string_view>

#include "transmuter_text.h"

namespace transmuter {

inline tmtext_view view(std::string_view text) { return {text.data(), text.size()}; }

// Takes over the text of the archive.
inline std::string take(tmtext_string text) {
  std::string out(text.data, text.size);
  tmtext_string_free(text);
  return out;
}

}  // namespace transmuter
