// Every model of the conformance cases through the reader: malformed ones must fail cleanly, all others must be read.
// TRANSMUTER_CASES names the folder that holds malformed/, node/ and so on.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "onnx/graph.h"
#include "onnx/value_proto.h"
#include "transmuter/error.h"

namespace transmuter::onnx {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Whether the flat JSON of a meta.json has `"key": value`; value as it is spelt there.
bool says(const std::string& json, const std::string& key, const std::string& value) {
  const size_t at = json.find('"' + key + '"');
  if (at == std::string::npos) return false;
  const size_t start = json.find_first_not_of(": ", at + key.size() + 2);
  return start != std::string::npos && json.compare(start, value.size(), value) == 0;
}

// The model of a case: the path in its meta.json, else model.onnx.
fs::path model_of(const fs::path& folder) {
  const std::string json = text_of(folder / "meta.json");
  const std::string key = "\"model\": \"";
  const size_t at = json.find(key);
  if (at == std::string::npos) return folder / "model.onnx";
  const size_t start = at + key.size();
  return folder / json.substr(start, json.find('"', start) - start);
}

std::vector<fs::path> cases_in(const std::string& name) {
  std::vector<fs::path> cases;
  const char* folder = std::getenv("TRANSMUTER_CASES");
  if (!folder || !fs::is_directory(fs::path(folder) / name)) return cases;
  for (const auto& entry : fs::directory_iterator(fs::path(folder) / name))
    if (fs::exists(model_of(entry.path()))) cases.push_back(entry.path());
  return cases;
}

// Faults that only the operators' own rules show; they are found when the model is compiled.
const std::set<std::string> kFoundByOperators = {"attr_blocksize_zero",
                                                 "attr_cast_to_invalid",
                                                 "attr_einsum_bad",
                                                 "attr_enum_bad",
                                                 "attr_group_zero",
                                                 "attr_pads_negative",
                                                 "attr_perm_negative_big",
                                                 "attr_stride_zero",
                                                 "attr_wrong_type",
                                                 "graph_required_input_empty",
                                                 "graph_too_many_inputs",
                                                 "op_not_in_opset",
                                                 "op_removed_in_opset",
                                                 "op_unknown",
                                                 "run_matmulnbits_blob_short",
                                                 "type_declared_output_wrong"};

TEST(OnnxCases, MalformedModelsFailWithAnError) {
  const std::vector<fs::path> cases = cases_in("malformed");
  if (cases.empty()) GTEST_SKIP() << "TRANSMUTER_CASES names no folder with malformed/";
  for (const fs::path& folder : cases) {
    const std::string name = folder.filename().string();
    const std::string meta = text_of(folder / "meta.json");
    const bool must_fail =
        says(meta, "stage", "\"load\"") && says(meta, "lenient_ok", "false") && kFoundByOperators.count(name) == 0;
    for (const bool map : {true, false}) {
      try {
        read_model((folder / "model.onnx").string(), {map});
        EXPECT_FALSE(must_fail) << name << " was read";
      } catch (const Error& error) {
        EXPECT_FALSE(says(meta, "stage", "\"run\"")) << name << ": " << error.what();
        EXPECT_FALSE(error.sentence().empty());
        RecordProperty(name, error.what());
        if (std::getenv("TRANSMUTER_SHOW_ERRORS") && map) GTEST_LOG_(INFO) << name << ": " << error.what();
      }
    }
  }
}

// Reads the models and the files of their data sets.
void read_all(const std::string& suite) {
  const std::vector<fs::path> cases = cases_in(suite);
  if (cases.empty()) GTEST_SKIP() << "TRANSMUTER_CASES names no folder with " << suite << "/";
  for (const fs::path& folder : cases) {
    const bool fails = says(text_of(folder / "meta.json"), "expect", "\"error\"");
    try {
      const Model model = read_model(model_of(folder).string());
      EXPECT_FALSE(model.graph.outputs.empty());
      for (const auto& set : fs::directory_iterator(folder)) {
        if (set.path().filename().string().rfind("test_data_set", 0) != 0) continue;
        for (const auto& file : fs::directory_iterator(set.path())) {
          if (file.path().extension() != ".pb") continue;
          const bool input = file.path().filename().string().rfind("input", 0) == 0;
          if (!input && file.path().filename().string().rfind("output", 0) != 0) continue;
          const std::string value_name = read_value_name(file.path().string());
          for (const ValueInfo& info : input ? model.graph.inputs : model.graph.outputs)
            if (info.name == value_name && info.kind != ValueInfo::Kind::none)
              read_value_file(file.path().string(), info);
        }
      }
    } catch (const Error& error) {
      EXPECT_TRUE(fails) << folder << ": " << error.what();
    }
  }
}

TEST(OnnxCases, NodeModelsAreRead) { read_all("node"); }
TEST(OnnxCases, VariantModelsAreRead) { read_all("ops_variants"); }
TEST(OnnxCases, ContribModelsAreRead) { read_all("ops_contrib"); }
TEST(OnnxCases, TrapModelsAreRead) { read_all("traps"); }
TEST(OnnxCases, TextModelsAreRead) { read_all("zoo_text"); }
TEST(OnnxCases, VisionModelsAreRead) { read_all("zoo_vision"); }

}  // namespace
}  // namespace transmuter::onnx
