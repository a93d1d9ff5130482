// The backends of the fuzzers: the reference alone.
#include "backends/reference/reference_backend.h"
#include "base/strings.h"
#include "transmuter/backend.h"
#include "transmuter/error.h"

namespace transmuter {

std::vector<std::string> Backend::names() { return {"reference"}; }

std::shared_ptr<Backend> Backend::get(const std::string& name) {
  static const std::shared_ptr<Backend> reference = make_reference_backend();
  if (name == "reference") return reference;
  throw Error(ErrorCode::not_found, str("there is no backend \"", name, "\"; the fuzzers have reference"));
}

}  // namespace transmuter
