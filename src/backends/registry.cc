// Which backends this build has.
#include "backends/cpu/cpu_backend.h"
#include "backends/reference/reference_backend.h"
#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter {

std::vector<std::string> Backend::names() { return {"cpu", "reference"}; }

std::shared_ptr<Backend> Backend::get(const std::string& name) {
  static const std::shared_ptr<Backend> reference = make_reference_backend();
  if (name == "reference") return reference;
  static const std::shared_ptr<Backend> cpu = make_cpu_backend();
  if (name == "cpu") return cpu;
  std::string known;
  for (const std::string& n : names()) known += (known.empty() ? "" : ", ") + n;
  throw Error(ErrorCode::not_found, str("there is no backend \"", name, "\"; this build has ", known));
}

}  // namespace transmuter
