// Every decoder with caches among the models of the zoos, 64 tokens from empty caches: few traces, and once it runs it
// neither compiles nor copies nor allocates more as the caches grow. TRANSMUTER_CASES names the folder that holds
// zoo_text/ and zoo_vision/.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "transmuter/decoder.h"
#include "zoo_testing.h"

namespace transmuter::runtime {
namespace {

namespace fs = std::filesystem;
using testing::data_set;
using testing::suite;
using Kind = Decoder::Cache::Kind;

struct Case {
  std::string name;
  Model model;
  TensorMap example;  // its first data set
};

// By the names in the file alone: the list of tests must not load every model.
bool has_growing_caches(const fs::path& model) {
  std::ifstream file(model, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  const auto has = [&](const char* name) { return bytes.find(name) != std::string::npos; };
  if (has("output_sequence")) return false;  // of frames, not of tokens: starts with one that the caller chooses
  return has("past_key_values.0.") || has("past_key_values.1.") || has("past_k\x12");
}

std::vector<fs::path> decoders(const char* zoo) {
  std::vector<fs::path> found;
  if (!fs::is_directory(suite(zoo))) return found;
  for (const auto& entry : fs::directory_iterator(suite(zoo))) {
    if (has_growing_caches(entry.path() / "model.onnx")) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

Case case_in(const fs::path& folder) {
  const Model model = Model::load((folder / "model.onnx").string());
  return {folder.filename().string(), model, data_set(model, folder / "test_data_set_0")};
}

// Axis 1 of a tensor, rows [first, first + count) modulo its extent; of batch item 0.
Tensor tokens_of(const Tensor& from, int64_t first, int64_t count) {
  Shape shape = from.shape();
  const int64_t rows = shape[1], width = from.size() / std::max<int64_t>(1, shape[0] * rows);
  shape[0] = 1;
  shape[1] = count;
  Tensor out(from.dtype(), shape);
  const size_t bytes = static_cast<size_t>(width) * byte_size(from.dtype(), 1);
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(out.mutable_bytes() + static_cast<size_t>(i) * bytes,
                from.bytes() + static_cast<size_t>((first + i) % rows) * bytes, bytes);
  return out;
}

Tensor first_of_batch(const Tensor& from) {
  Shape shape = from.shape();
  if (shape.empty() || shape[0] <= 1) return from;
  shape[0] = 1;
  Tensor out(from.dtype(), shape);
  std::memcpy(out.mutable_bytes(), from.bytes(), out.nbytes());
  return out;
}

// What a step takes besides caches. `steps` counts the tokens before.
TensorMap step_inputs(const Case& c, int64_t before, int64_t count) {
  TensorMap inputs;
  for (const char* name : {"input_ids", "inputs_embeds"}) {
    if (const auto found = c.example.find(name); found != c.example.end())
      inputs[name] = tokens_of(found->second.tensor, before, count);
  }
  // A mask made by the model's own exporter, [b, 1, s, total]: everything may be seen up to the own place.
  if (const auto mask = c.example.find("mask"); mask != c.example.end()) {
    const int64_t total = before + count;
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < total; ++j) values.push_back(j <= before + i ? 0.0f : -1e9f);
    }
    inputs["mask"] = Tensor(values, {1, 1, count, total});
  }
  return inputs;
}

// The first step's: what an encoder gives, caches of its states, states of a recurrence.
void add_start(const Case& c, const Decoder& decoder, TensorMap& inputs) {
  for (const auto& [name, value] : c.example) {
    if (name.starts_with("encoder_")) inputs[name] = first_of_batch(value.tensor);
  }
  for (const Decoder::Cache& cache : decoder.caches()) {
    const bool merged = c.example.contains("use_cache_branch");
    if (cache.kind == Kind::cross && !merged) inputs[cache.past] = first_of_batch(c.example.at(cache.past).tensor);
  }
}

double worst(const Tensor& x, const Tensor& y) {
  const Tensor a = x.cast(DType::f64), b = y.cast(DType::f64);
  double top = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double u = a.data<double>()[i], v = b.data<double>()[i];
    if (std::isnan(u) && std::isnan(v)) continue;
    const double far = std::abs(u - v) / (1 + std::abs(v));
    top = std::isnan(far) ? INFINITY : u == v ? top : std::max(top, far);
  }
  return top;
}

// The same step by plain maps of dense tensors that are nobody's gift; its own masks and positions.
TensorMap plain_step(const Case& c, const CompiledModel& model, const Decoder& decoder, const TensorMap& dense,
                     const TensorMap& given, int64_t before, int64_t count) {
  TensorMap inputs = given;
  const int64_t total = before + count;
  for (const ValueSpec& spec : model.inputs()) {
    if (inputs.contains(spec.name) || spec.optional) continue;
    if (const auto held = dense.find(spec.name); held != dense.end()) {
      inputs[spec.name] = held->second;
    } else if (spec.name == "attention_mask") {
      inputs[spec.name] = Tensor(std::vector<int64_t>(static_cast<size_t>(total), 1), {1, total}).cast(spec.dtype);
    } else if (spec.name == "position_ids") {
      std::vector<int64_t> places;
      for (int64_t i = before; i < total; ++i) places.push_back(i);
      Shape shape{1, count};
      if (spec.shape.size() == 3) {  // three alike for text
        for (int64_t i = 0; i < 2 * count; ++i) places.push_back(places[static_cast<size_t>(i)]);
        shape = {3, 1, count};
      }
      inputs[spec.name] = Tensor(places, shape).cast(spec.dtype);
    } else if (spec.name == "use_cache_branch") {
      inputs[spec.name] = Tensor(std::vector<int64_t>{before > 0}, {1}).cast(spec.dtype);
    } else if (spec.name.starts_with("encoder_")) {
      inputs[spec.name] = first_of_batch(c.example.at(spec.name).tensor);
    }
  }
  for (const Decoder::Cache& cache : decoder.caches()) {
    if (inputs.contains(cache.past)) continue;
    Shape shape = c.example.at(cache.past).tensor.shape();
    shape[0] = 1;
    if (cache.axis >= 0) shape[static_cast<size_t>(cache.axis)] = 0;
    inputs[cache.past] = Tensor::zeros(c.example.at(cache.past).tensor.dtype(), shape);
  }
  const TensorMap& unchanged = inputs;
  return model(unchanged);
}

DecoderOptions options_for(const Case& c) {
  DecoderOptions options;
  for (const ValueSpec& spec : c.model.inputs()) {
    const auto example = c.example.find(spec.name);
    if (example == c.example.end() || !spec.name.starts_with("past")) continue;
    for (size_t i = 1; i < spec.shape.size(); ++i) {
      if (spec.shape[i].symbol == "kv_cache_dim") options.sizes["kv_cache_dim"] = example->second.tensor.shape()[i];
    }
  }
  return options;
}

constexpr int64_t kTokens = 64;

void decode(const Case& c, int64_t first_tokens) {
  CompileOptions compile;
  compile.threads = 1;
  const CompiledModel plain = c.model.compile(compile);
  Decoder decoder(c.model.compile(compile), options_for(c));
  size_t growing = 0;
  for (const Decoder::Cache& cache : decoder.caches()) growing += cache.kind == Kind::grows ? 1 : 0;
  ASSERT_GT(growing, 0U);
  RunStats early;
  int64_t steady = 0, before = 0;
  double far = 0;
  // Some of these models have no positions beyond 64.
  for (int64_t step = 0; before < kTokens; ++step) {
    const int64_t count = step == 0 ? first_tokens : 1;
    TensorMap inputs = step_inputs(c, before, count);
    if (step == 0) add_start(c, decoder, inputs);
    TensorMap dense;
    const bool compared = step < 4 || step % 16 == 1 || before + 1 == kTokens;
    if (compared) {
      for (const Decoder::Cache& cache : decoder.caches()) {
        if (const Tensor held = decoder.cache(cache.past)) dense[cache.past] = held.clone();
      }
    }
    const RunStats at = decoder.stats();
    const TensorMap given = inputs;
    TensorMap outputs;
    try {
      outputs = decoder.step(std::move(inputs));
    } catch (const Error& error) {  // beyond the model's positions: nothing has happened to the decoder
      ASSERT_GE(before, 32) << error.what();
      ASSERT_EQ(decoder.length(), before);
      Decoder again = decoder.fork();
      EXPECT_THROW(again.step(step_inputs(c, before, 1)), Error);
      decoder.reset();
      TensorMap start = step_inputs(c, 0, first_tokens);
      add_start(c, decoder, start);
      decoder.step(std::move(start));
      EXPECT_EQ(decoder.length(), first_tokens);
      break;
    }
    const RunStats now = decoder.stats();
    if (step == 1) early = now;
    if (step == 2) steady = now.allocated_bytes - at.allocated_bytes;
    if (step > 2) {
      // Rows chosen by experts vary.
      EXPECT_LE(now.allocated_bytes - at.allocated_bytes, steady + steady / 2) << "step " << step;
    }
    if (step > 1) {
      EXPECT_EQ(now.appends - at.appends, static_cast<int64_t>(growing)) << "step " << step;
    }
    if (compared) {
      const TensorMap expected = plain_step(c, plain, decoder, dense, given, before, count);
      for (const auto& [name, value] : outputs) far = std::max(far, worst(value.tensor, expected.at(name).tensor));
      for (const Decoder::Cache& cache : decoder.caches()) {
        if (cache.kind == Kind::cross || !expected.contains(cache.present)) continue;
        const Tensor held = decoder.cache(cache.past);
        EXPECT_EQ(held.shape(), expected.at(cache.present).tensor.shape()) << cache.past;
        far = std::max(far, worst(held, expected.at(cache.present).tensor));
      }
    }
    before += count;
    EXPECT_EQ(decoder.length(), before);
    if (::testing::Test::HasFailure()) break;
  }
  const RunStats late = decoder.stats();
  EXPECT_LE(late.traces, 3);
  EXPECT_EQ(late.traces, early.traces);
  EXPECT_EQ(late.cache_copies, early.cache_copies);
  EXPECT_LT(far, 2e-4);
}

class SharedBuffers : public ::testing::TestWithParam<const char*> {};

// The same texts with caches that grow and with caches as long as the longest text.
TEST_P(SharedBuffers, AreWrittenInPlace) {
  if (suite("").empty()) GTEST_SKIP() << "TRANSMUTER_CASES is not set";
  const fs::path folder = suite("zoo_text") / GetParam();
  const Case c = case_in(folder);
  CompileOptions compile;
  compile.threads = 1;
  DecoderOptions options = options_for(c);
  Decoder grown(c.model.compile(compile), options);
  options.shared_buffers = true;
  options.max_length = 40;
  Decoder shared(c.model.compile(compile), options);
  const int64_t caches = static_cast<int64_t>(shared.caches().size());
  for (int64_t before = 0; before < 40;) {
    const int64_t count = before == 0 ? 5 : 1;
    const RunStats at = shared.stats();
    const TensorMap a = grown.step(step_inputs(c, before, count)), b = shared.step(step_inputs(c, before, count));
    for (const auto& [name, value] : a) EXPECT_LT(worst(value.tensor, b.at(name).tensor), 2e-4) << name;
    before += count;
    if (before < 7) continue;
    EXPECT_EQ(shared.stats().appends - at.appends, caches);
    EXPECT_EQ(shared.stats().cache_copies, at.cache_copies);
    EXPECT_EQ(shared.stats().traces, at.traces);
  }
  EXPECT_LE(shared.stats().traces, 3);
  // Behind the text are zeros, as an operator that makes a new cache says.
  const Tensor cache = shared.cache(shared.caches()[0].past).cast(DType::f32);
  EXPECT_EQ(cache.dim(2), 40);
  shared.reset();
  shared.step(step_inputs(c, 0, 3));
  const Tensor fresh = shared.cache(shared.caches()[0].past).cast(DType::f32);
  EXPECT_EQ(fresh.to_vector<float>().back(), 0);
  EXPECT_THROW(shared.step(step_inputs(c, 3, 38)), Error);
  shared.step(step_inputs(c, 3, 2));
  EXPECT_EQ(shared.length(), 5);
}

// Two texts of different lengths in one batch, padded on the left.
TEST_P(SharedBuffers, AreWrittenInPlaceForEachSequence) {
  if (suite("").empty()) GTEST_SKIP() << "TRANSMUTER_CASES is not set";
  const Case c = case_in(suite("zoo_text") / GetParam());
  CompileOptions compile;
  compile.threads = 1;
  DecoderOptions options = options_for(c);
  options.shared_buffers = true;
  options.max_length = 24;
  Decoder shared(c.model.compile(compile), options);
  compile.backend = "reference";
  Decoder reference(c.model.compile(compile), options);
  const int64_t caches = static_cast<int64_t>(shared.caches().size());
  for (int64_t before = 0; before < 12;) {
    const int64_t count = before == 0 ? 5 : 1;
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < 2 * count; ++i) ids.push_back((7 * (before + i) + 3) % 50);
    std::vector<int64_t> mask(static_cast<size_t>(2 * count), 1);
    if (before == 0) mask[8] = mask[9] = 0;  // the second text is shorter
    const TensorMap inputs{{"input_ids", Tensor(ids, {2, count})}, {"attention_mask", Tensor(mask, {2, count})}};
    const RunStats at = shared.stats();
    const TensorMap a = shared.step(inputs), b = reference.step(inputs);
    for (const auto& [name, value] : a) EXPECT_LT(worst(value.tensor, b.at(name).tensor), 1e-3) << name << before;
    before += count;
    if (before < 8) continue;
    EXPECT_EQ(shared.stats().appends - at.appends, caches);
    EXPECT_EQ(shared.stats().cache_copies, at.cache_copies);
  }
}

INSTANTIATE_TEST_SUITE_P(Genai, SharedBuffers,
                         ::testing::Values("genai_llama_fp32", "genai_llama_kvint8", "genai_llama_fp16_cuda"),
                         [](const auto& info) { return std::string(info.param); });

class DecoderZoo : public ::testing::TestWithParam<fs::path> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DecoderZoo);

TEST_P(DecoderZoo, SixtyFourStepsFromEmptyCaches) {
  const Case c = case_in(GetParam());
  for (const int64_t first_tokens : {1, 5}) {
    SCOPED_TRACE(std::to_string(first_tokens) + " tokens first");
    decode(c, first_tokens);
    if (HasFailure()) return;
  }
}

constexpr auto kNameOf = [](const auto& info) { return info.param.filename().string(); };
INSTANTIATE_TEST_SUITE_P(Text, DecoderZoo, ::testing::ValuesIn(decoders("zoo_text")), kNameOf);
INSTANTIATE_TEST_SUITE_P(Vision, DecoderZoo, ::testing::ValuesIn(decoders("zoo_vision")), kNameOf);

}  // namespace
}  // namespace transmuter::runtime
