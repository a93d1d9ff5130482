#include "ops/registry.h"

namespace transmuter::ops {

// One a file, defined there.
void register_bitwise(Registry&);
void register_elementwise(Registry&);

void Registry::add(const char* name, std::initializer_list<int64_t> versions, Lower lower, const char* domain,
                   const char* notes) {
  Operator& op = operators_[{domain, name}];
  op.domain = domain;
  op.name = name;
  op.versions = versions;
  op.lower = lower;
  op.notes = notes;
}

void Registry::add_host(const char* name, std::initializer_list<int64_t> versions, HostRun host, const char* domain) {
  Operator& op = operators_[{domain, name}];
  op.domain = domain;
  op.name = name;
  op.versions = versions;
  op.host = host;
}

const Operator* Registry::find(std::string_view domain, std::string_view name) const {
  const auto at = operators_.find({std::string(domain), std::string(name)});
  return at == operators_.end() ? nullptr : &at->second;
}

const Registry& registry() {
  static const Registry* const kRegistry = [] {
    auto* r = new Registry;
    register_bitwise(*r);
    register_elementwise(*r);
    return r;
  }();
  return *kRegistry;
}

}  // namespace transmuter::ops
