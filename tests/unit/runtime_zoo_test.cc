// Models of the zoos, fed with inputs of many sizes: how many traces they take. TRANSMUTER_CASES names the folder that
// holds zoo_vision/ and zoo_text/.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "zoo_testing.h"

namespace transmuter::runtime {
namespace {

namespace fs = std::filesystem;

using testing::data_set;
using testing::suite;

CompiledModel compiled(const Model& model) {
  CompileOptions options;
  options.threads = 1;
  return model.compile(options);
}

// Numbers in [0, 1) that differ from image to image.
Tensor image(const Shape& shape, uint32_t seed) {
  std::vector<float> pixels(static_cast<size_t>(element_count(shape)));
  uint32_t state = seed * 2654435761U + 1;
  for (float& pixel : pixels) {
    state = state * 1664525U + 1013904223U;
    pixel = static_cast<float>(state >> 8) / static_cast<float>(1 << 24);
  }
  return Tensor(std::move(pixels), shape);
}

class Detector : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Zoo, Detector, ::testing::Values("tv_fcos", "tv_retinanet", "tv_keypoint_rcnn", "tv_ssd"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Detector, TwentyImagesTakeThreeTracesAtMost) {
  const fs::path folder = suite("zoo_vision") / GetParam();
  if (!fs::exists(folder / "model.onnx")) GTEST_SKIP() << "TRANSMUTER_CASES names no folder with zoo_vision/";
  const Model model = Model::load((folder / "model.onnx").string());
  const TensorMap given = data_set(model, folder / "test_data_set_0");
  ASSERT_EQ(given.size(), 1u);
  const auto& [name, example] = *given.begin();
  const CompiledModel run = compiled(model);
  std::set<int64_t> counts;
  for (uint32_t i = 0; i < 20; ++i) {
    const TensorMap out = run({{name, image(example.tensor.shape(), i)}});
    for (const auto& [output, value] : out) counts.insert(value.tensor.rank() ? value.tensor.dim(0) : 0);
  }
  EXPECT_LE(run.stats().traces, 3);
  EXPECT_EQ(run.stats().breaks, 0) << run.trace_text();
  // An image without any detection, and the next one.
  run({{name, Tensor(std::vector<float>(static_cast<size_t>(example.tensor.size())), example.tensor.shape())}});
  run(given);
  EXPECT_LE(run.stats().traces, 3);
}

class Speech : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Zoo, Speech,
                         ::testing::Values("kokoro_like", "kokoro_like_random", "kokoro_like_stft_op", "piper_like_tts",
                                           "piper_like_tts_noise"),
                         [](const auto& info) { return std::string(info.param); });

// The length of the sound is what the model predicts of each text.
TEST_P(Speech, TenTextsTakeOneTrace) {
  const fs::path folder = suite("zoo_vision") / GetParam();
  if (!fs::exists(folder / "model.onnx")) GTEST_SKIP() << "TRANSMUTER_CASES names no folder with zoo_vision/";
  const Model model = Model::load((folder / "model.onnx").string());
  const TensorMap given = data_set(model, folder / "test_data_set_0");
  const CompiledModel run = compiled(model);
  std::set<int64_t> lengths;
  for (int64_t i = 0; i < 10; ++i) {
    TensorMap inputs = given;
    const int64_t length = 5 + 2 * i;
    for (auto& [name, value] : inputs) {
      const Tensor& tensor = value.tensor;
      if (tensor.dtype() != DType::i64) continue;
      if (tensor.rank() == 1) {
        value = Tensor(std::vector<int64_t>{length}, {1});
        continue;
      }
      const std::vector<int64_t> ids = tensor.aligned().to_vector<int64_t>();
      std::vector<int64_t> text;
      for (int64_t k = 0; k < length; ++k) text.push_back(ids[static_cast<size_t>(k + i) % ids.size()]);
      value = Tensor(std::move(text), {1, length});
    }
    for (const auto& [name, value] : run(inputs)) lengths.insert(value.tensor.size());
  }
  EXPECT_GE(lengths.size(), 5u);
  EXPECT_EQ(run.stats().traces, 1) << run.trace_text();
  EXPECT_EQ(run.stats().breaks, 0) << run.trace_text();
}

// A trace for each branch, and for extents of 0 or 1.
TEST(Merged, DecodersTakeATraceABranchAndNeverBreak) {
  int seen = 0;
  for (const char* name : {"zoo_text", "zoo_vision"}) {
    if (!fs::is_directory(suite(name))) GTEST_SKIP() << "TRANSMUTER_CASES names no folder with " << name << "/";
    for (const auto& entry : fs::directory_iterator(suite(name))) {
      if (entry.path().filename().string().find("merged") == std::string::npos) continue;
      const Model model = Model::load((entry.path() / "model.onnx").string());
      if (!model.summary().unsupported.empty()) continue;
      const CompiledModel run = compiled(model);
      std::set<std::vector<int64_t>> kinds;
      int64_t first = 0;
      for (int again = 0; again < 2; ++again) {
        for (int k = 0; fs::exists(entry.path() / ("test_data_set_" + std::to_string(k))); ++k) {
          const TensorMap inputs = data_set(model, entry.path() / ("test_data_set_" + std::to_string(k)));
          std::vector<int64_t> kind;
          for (const auto& [input, value] : inputs) {
            if (value.tensor.dtype() == DType::boolean) {
              kind.push_back(static_cast<int64_t>(value.tensor.bytes()[0]));
            }
            for (const int64_t extent : value.tensor.shape()) kind.push_back(std::min<int64_t>(extent, 2));
          }
          kinds.insert(kind);
          run(inputs);
        }
        if (!again) first = run.stats().traces;
      }
      ++seen;
      EXPECT_LE(first, static_cast<int64_t>(kinds.size())) << entry.path();
      EXPECT_EQ(run.stats().traces, first) << entry.path();
      EXPECT_EQ(run.stats().breaks, 0) << entry.path() << "\n" << run.trace_text();
    }
  }
  EXPECT_GT(seen, 0);
}

}  // namespace
}  // namespace transmuter::runtime
