// Stands in for pattern.cc in a build without RE2.
#include "base/pattern.h"
#include "transmuter/error.h"

namespace transmuter {

Pattern::Pattern(std::string_view /*expression*/) {
  throw Error(ErrorCode::unsupported,
              "regular expressions need RE2, which this build was configured without: install it (Debian's package "
              "libre2-dev) and build again");
}

bool Pattern::matches(std::string_view /*text*/) const { return false; }

std::vector<std::pair<size_t, size_t>> Pattern::places(std::string_view /*text*/) const { return {}; }

}  // namespace transmuter
