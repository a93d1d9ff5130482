// What the tests on models of the zoos share: where a suite lies, and its cases' inputs.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "transmuter/io.h"
#include "transmuter/model.h"

namespace transmuter::runtime::testing {

// The folder of a suite in the one that TRANSMUTER_CASES names; "" when it names none.
inline std::filesystem::path suite(const std::string& name) {
  const char* folder = std::getenv("TRANSMUTER_CASES");
  return folder ? std::filesystem::path(folder) / name : std::filesystem::path();
}

// The inputs in a test_data_set_N folder.
inline TensorMap data_set(const Model& model, const std::filesystem::path& folder) {
  TensorMap inputs;
  for (int i = 0;; ++i) {
    const std::filesystem::path file = folder / ("input_" + std::to_string(i) + ".pb");
    if (!std::filesystem::exists(file)) return inputs;
    const std::string name = value_name(file.string());
    const auto spec =
        std::find_if(model.inputs().begin(), model.inputs().end(), [&](const ValueSpec& s) { return s.name == name; });
    inputs[name] = read_value(file.string(), spec == model.inputs().end() ? nullptr : &*spec);
  }
}

}  // namespace transmuter::runtime::testing
