// The operators: name, domain, the opset versions at which the meaning changes, one lowering for all of them. Filled by
// one register_<family>(Registry&) per file, called from registry.cc.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/context.h"
#include "transmuter/value.h"

namespace transmuter::ops {

using Lower = void (*)(OpContext&);
// Runs on real host values where no program can (strings, maps): inputs in node order (kind none = absent) -> outputs.
using HostRun = std::vector<transmuter::Value> (*)(const onnx::Node&, std::vector<transmuter::Value>);

struct Operator {
  std::string domain;  // "" is ai.onnx
  std::string name;
  std::vector<int64_t> versions;
  Lower lower = nullptr;
  HostRun host = nullptr;
  std::string notes;
};

inline constexpr const char* kMicrosoft = "com.microsoft";

class Registry {
 public:
  // r.add("ReduceSum", {1, 11, 13}, reduce_sum)
  void add(const char* name, std::initializer_list<int64_t> versions, Lower lower, const char* domain = "",
           const char* notes = "");
  void add_host(const char* name, std::initializer_list<int64_t> versions, HostRun host, const char* domain = "");
  const Operator* find(std::string_view domain, std::string_view name) const;
  const std::map<std::pair<std::string, std::string>, Operator>& all() const { return operators_; }

 private:
  std::map<std::pair<std::string, std::string>, Operator> operators_;
};

const Registry& registry();

}  // namespace transmuter::ops
