// Which backends this build has.
#include <map>
#include <mutex>

#include "backends/cpu/cpu_backend.h"
#include "backends/pjrt/pjrt_backend.h"
#include "backends/reference/reference_backend.h"
#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

// Never given back: plugins don't survive being torn down after their own static objects.
std::shared_ptr<Backend> pjrt_backend(const std::string& name) {
  static std::mutex mutex;
  static auto& backends = *new std::map<std::string, std::shared_ptr<Backend>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<Backend>& backend = backends[name];
  if (!backend) backend = make_pjrt_backend(name);
  return backend;
}

}  // namespace

std::vector<std::string> Backend::names() { return {"cpu", "reference"}; }

std::shared_ptr<Backend> Backend::get(const std::string& name) {
  static const std::shared_ptr<Backend> reference = make_reference_backend();
  if (name == "reference") return reference;
  static const std::shared_ptr<Backend> cpu = make_cpu_backend();
  if (name == "cpu") return cpu;
  if (name == "pjrt" || name.starts_with("pjrt:") || name.starts_with("pjrt,")) return pjrt_backend(name);
  std::string known;
  for (const std::string& n : names()) known += (known.empty() ? "" : ", ") + n;
  throw Error(ErrorCode::not_found,
              str("there is no backend \"", name, "\"; this build has ", known, ", and pjrt[:PLUGIN]"));
}

}  // namespace transmuter
