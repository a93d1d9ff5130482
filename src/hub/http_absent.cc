// Stands in for http.cc in a build without libcurl (TRANSMUTER_HUB=OFF): the cache is read, nothing is asked.
#include "hub/http.h"
#include "transmuter/error.h"
#include "transmuter/hub.h"

namespace transmuter {

bool hub_available() { return false; }

namespace hub {

Response perform(const Request&, const Sink&) {
  throw Error(ErrorCode::unsupported, "this build cannot download (TRANSMUTER_HUB=OFF)");
}
std::string origin(const std::string&) { return ""; }
std::string quoted(const std::string& text, bool) { return text; }

}  // namespace hub
}  // namespace transmuter
