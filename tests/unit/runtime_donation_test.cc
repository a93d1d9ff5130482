// Caches between calls: what is given away grows in place, what is held elsewhere stays as it is.
#include "runtime_testing.h"
#include "transmuter/decoder.h"

namespace transmuter::runtime::testing {
namespace {

// present = past ++ x (axis 1); y = the sum over it, and `past` once more where asked.
GraphParts appending() {
  return {.nodes = {node("Concat", {"past_k", "x"}, {"present_k"}, {int_attribute("axis", 1)}),
                    node("Abs", {"present_k"}, {"read"}),
                    node("ReduceSum", {"read", "axes"}, {"y"}, {int_attribute("keepdims", 0)})},
          .inputs = {shaped("x", kFloat, {"b", "s", 4}), shaped("past_k", kFloat, {"b", "past", 4})},
          .outputs = {shaped("y", kFloat, {"b", 4}), shaped("present_k", kFloat, {"b", "total", 4})},
          .initializers = {int64_tensor("axes", {1})}};
}

CompiledModel on_cpu(const GraphParts& parts) {
  CompileOptions options;
  options.threads = 1;
  return load(parts).compile(options);
}

Tensor row(float value, int64_t batch = 2, int64_t rows = 2) {
  return Tensor(std::vector<float>(static_cast<size_t>(batch * rows * 4), value), {batch, rows, 4});
}

TEST(Donation, UniqueTensorsGrowInPlace) {
  const CompiledModel run = on_cpu(appending());
  TensorMap in{{"x", row(1)}, {"past_k", row(2)}};
  TensorMap out = run(std::move(in));
  EXPECT_TRUE(in.empty());
  EXPECT_EQ(run.stats().cache_copies, 1);  // into memory with room
  const int64_t copied = run.stats().cache_copy_bytes;
  for (int step = 0; step < 5; ++step) {
    in["x"] = row(static_cast<float>(step));
    in["past_k"] = std::move(out.at("present_k"));
    out = run(std::move(in));
  }
  EXPECT_EQ(run.stats().appends, 5);
  EXPECT_EQ(run.stats().cache_copy_bytes, copied);
  EXPECT_EQ(out.at("present_k").tensor.shape(), (Shape{2, 14, 4}));
  EXPECT_EQ(floats_of(out.at("y")), std::vector<float>(8, 2 * (2 + 1 + 0 + 1 + 2 + 3 + 4)));
  const std::vector<float> rows = floats_of(out.at("present_k"));
  EXPECT_EQ(rows[0], 2);
  EXPECT_EQ(rows[55], 4);
  EXPECT_EQ(rows[56], 2);
}

TEST(Donation, HeldTensorsSilentlyStay) {
  const CompiledModel run = on_cpu(appending());
  TensorMap first = run({{"x", row(1)}, {"past_k", row(2)}});
  const Tensor held = first.at("present_k");
  TensorMap second = run({{"x", row(3)}, {"past_k", held}});
  TensorMap third = run({{"x", row(5)}, {"past_k", held}});
  EXPECT_EQ(run.stats().appends, 0);
  EXPECT_EQ(held.shape(), (Shape{2, 4, 4}));
  EXPECT_EQ(floats_of(held)[15], 1);
  EXPECT_EQ(floats_of(second.at("y")), std::vector<float>(8, 12));
  EXPECT_EQ(floats_of(third.at("y")), std::vector<float>(8, 16));
  EXPECT_EQ(floats_of(second.at("present_k"))[23], 3);
}

// A kernel that wants its operand dense copies the cache first; what is new still goes where the cache itself lies.
TEST(Donation, CachesThatAKernelCopiesGrowToo) {
  const CompiledModel run =
      on_cpu({.nodes = {node("CumSum", {"past_k", "axis"}, {"sums"}),
                        node("Concat", {"past_k", "x"}, {"present_k"}, {int_attribute("axis", 1)})},
              .inputs = {shaped("x", kFloat, {"b", "s", 4}), shaped("past_k", kFloat, {"b", "past", 4})},
              .outputs = {value("sums"), value("present_k")},
              .initializers = {int64_tensor("axis", {1}, true)}});
  TensorMap out = run({{"x", row(1)}, {"past_k", row(2)}});
  EXPECT_EQ(floats_of(out.at("present_k"))[31], 1);
  TensorMap in;
  for (int step = 0; step < 400; ++step) {  // past the room that there was at first
    in["x"] = row(static_cast<float>(step), 2, 1);
    in["past_k"] = std::move(out.at("present_k"));
    out = run(std::move(in));
  }
  const std::vector<float> rows = floats_of(out.at("present_k")), sums = floats_of(out.at("sums"));
  ASSERT_EQ(rows.size(), 2U * 404 * 4);
  for (size_t batch = 0; batch < 2; ++batch) {
    float sum = 0;
    for (size_t i = 0; i < 404; ++i) {
      const float expected = i < 2 ? 2 : i < 4 ? 1 : static_cast<float>(i - 4);
      EXPECT_EQ(rows[(batch * 404 + i) * 4 + 3], expected);
      sum += expected;
      if (i == 403) continue;  // of the past alone
      EXPECT_EQ(sums[(batch * 403 + i) * 4 + 3], sum);
    }
  }
}

TEST(Donation, LookingAtACacheDoesNotEndIt) {
  const CompiledModel run = on_cpu(appending());
  TensorMap in{{"x", row(1)}, {"past_k", row(2)}};
  TensorMap out = run(std::move(in));
  EXPECT_EQ(floats_of(out.at("present_k")).size(), 32U);
  in["x"] = row(1);
  in["past_k"] = std::move(out.at("present_k"));
  out = run(std::move(in));
  EXPECT_EQ(run.stats().appends, 1);
}

TEST(Donation, PlainCallsGiveDenseTensors) {
  const CompiledModel run = on_cpu(appending());
  const TensorMap in{{"x", row(1)}, {"past_k", row(2)}};
  const TensorMap out = run(in);
  EXPECT_FALSE(out.at("present_k").tensor.elsewhere());
  EXPECT_EQ(floats_of(out.at("present_k"))[0], 2);
  EXPECT_EQ(in.size(), 2U);
}

TEST(Donation, AMarkedTensorIsGoneForEverybody) {
  const CompiledModel run = on_cpu(appending());
  TensorMap in{{"x", row(1)}, {"past_k", row(2)}};
  TensorMap out = run(std::move(in));
  for (const bool dense : {false, true}) {
    const Tensor other = dense ? row(7) : out.at("present_k").tensor;
    in["x"] = row(1);
    in["past_k"] = other;
    in["past_k"].donated = true;
    const TensorMap next = run(std::move(in));
    const std::string error = error_in([&] { run({{"x", row(1)}, {"past_k", other}}); });
    EXPECT_NE(error.find("past_k"), std::string::npos) << error;
    EXPECT_NE(error.find("given to an earlier run"), std::string::npos) << error;
    EXPECT_EQ(floats_of(next.at("y")).size(), 8U);
  }
  EXPECT_EQ(run.stats().appends, 1);
}

TEST(Donation, AfterAnErrorTheMapIsAsBefore) {
  const CompiledModel run = on_cpu(appending());
  TensorMap in{{"x", row(1)}, {"past_k", row(2)}};
  TensorMap out = run(std::move(in));
  in["x"] = row(1, 3);  // another batch
  in["past_k"] = std::move(out.at("present_k"));
  EXPECT_NE(error_in([&] { run(std::move(in)); }), "");
  ASSERT_EQ(in.size(), 2U);
  in["x"] = row(1);
  out = run(std::move(in));
  EXPECT_EQ(run.stats().appends, 1);
  EXPECT_EQ(floats_of(out.at("y")), std::vector<float>(8, 8));
}

TEST(Donation, OneTensorAsTwoInputs) {
  GraphParts parts = appending();
  parts.inputs[0] = shaped("x", kFloat, {"b", "past", 4});
  const CompiledModel run = on_cpu(parts);
  TensorMap in{{"past_k", row(2)}};
  in["x"] = in.at("past_k");
  const TensorMap out = run(std::move(in));
  EXPECT_EQ(floats_of(out.at("y")), std::vector<float>(8, 8));
}

// updated = TensorScatter(cache, x, at); y = the cache's sum over its rows.
GraphParts scattering() {
  return {.nodes = {node("TensorScatter", {"cache", "x", "at"}, {"updated_cache"}, {int_attribute("axis", 1)}),
                    node("Abs", {"updated_cache"}, {"read"}),
                    node("ReduceSum", {"read", "axes"}, {"y"}, {int_attribute("keepdims", 0)})},
          .inputs = {shaped("x", kFloat, {"b", "s", 4}), shaped("cache", kFloat, {"b", "max", 4}),
                     shaped("at", kInt64, {"b"})},
          .outputs = {shaped("y", kFloat, {"b", 4}), shaped("updated_cache", kFloat, {"b", "max", 4})},
          .initializers = {int64_tensor("axes", {1})}};
}

TEST(Donation, TensorScatterWritesInPlace) {
  CompileOptions options;
  options.threads = 1;
  const CompiledModel run = load(scattering(), 24).compile(options);
  TensorMap in{{"cache", Tensor::zeros(DType::f32, {1, 8, 4})}};
  float total = 0;
  for (int64_t step = 0; step < 4; ++step) {
    in["x"] = row(static_cast<float>(step + 1), 1, 2);
    in["at"] = Tensor(std::vector<int64_t>{step * 2}, {1});
    TensorMap out = run(std::move(in));
    total += 2 * static_cast<float>(step + 1);
    EXPECT_EQ(floats_of(out.at("y")), std::vector<float>(4, total));
    in.clear();
    in["cache"] = std::move(out.at("updated_cache"));
  }
  EXPECT_EQ(run.stats().appends, 3);
  EXPECT_EQ(run.stats().cache_copies, 1);
  in["x"] = row(1, 1, 2);
  in["at"] = Tensor(std::vector<int64_t>{7}, {1});
  EXPECT_NE(error_in([&] { run(std::move(in)); }).find("TensorScatter"), std::string::npos);
  in["at"] = Tensor(std::vector<int64_t>{6}, {1});
  EXPECT_EQ(floats_of(run(std::move(in)).at("y")), std::vector<float>(4, total - 8 + 2));
}

// Each sequence of a batch at its own place; round and round where the cache holds the last rows only. Against the
// reference, which makes a new cache each time.
TEST(Donation, EachSequenceIsWrittenAtItsOwnPlace) {
  for (const bool circular : {false, true}) {
    GraphParts parts = scattering();
    Strings attributes{int_attribute("axis", 1)};
    if (circular) attributes.push_back(text_attribute("mode", "circular"));
    parts.nodes[0] = node("TensorScatter", {"cache", "x", "at"}, {"updated_cache"}, attributes);
    CompileOptions options;
    options.threads = 1;
    const CompiledModel run = load(parts, 24).compile(options);
    options.backend = "reference";
    const CompiledModel reference = load(parts, 24).compile(options);
    TensorMap in{{"cache", counting({2, 8, 4})}}, as{{"cache", counting({2, 8, 4})}};
    for (int64_t step = 0; step < 6; ++step) {
      const int64_t rows = step == 3 ? 1 : 2;
      as["x"] = row(static_cast<float>(step + 1), 2, rows);
      in["x"] = row(static_cast<float>(step + 1), 2, rows);
      const std::vector<int64_t> places =
          circular ? std::vector<int64_t>{3 * step, 7 - step} : std::vector<int64_t>{step, 6 - step};
      as["at"] = in["at"] = Tensor(places, {2});
      TensorMap out = run(std::move(in)), expected = reference(as);
      EXPECT_EQ(floats_of(out.at("y")), floats_of(expected.at("y"))) << circular << " " << step;
      if (step % 2) {
        EXPECT_EQ(floats_of(out.at("updated_cache")), floats_of(expected.at("updated_cache")))
            << circular << " " << step;
      }
      in.clear();
      in["cache"] = std::move(out.at("updated_cache"));
      as["cache"] = std::move(expected.at("updated_cache"));
    }
    EXPECT_EQ(run.stats().appends, 5);
    EXPECT_EQ(run.stats().cache_copies, 1);
  }
}

TEST(Decoder, SizesThatNothingTellsAreNamed) {
  GraphParts parts = appending();
  parts.inputs[1] = shaped("past_k", kFloat, {"b", "past", "cache_width"});
  DecoderOptions options;
  const std::string error = error_in([&] { Decoder(on_cpu(parts), options).step({{"x", row(1)}}); });
  EXPECT_NE(error.find("axis 2 (cache_width) of past_k"), std::string::npos) << error;
  EXPECT_NE(error.find("DecoderOptions::sizes"), std::string::npos) << error;
  options.sizes["cache_width"] = 4;
  Decoder decoder(on_cpu(parts), options);
  EXPECT_EQ(floats_of(decoder.step({{"x", row(1)}}).at("y"))[0], 2);
}

TEST(Decoder, ForksShareUntilTheyGrow) {
  Decoder one(on_cpu(appending()));
  ASSERT_EQ(one.caches().size(), 1U);
  one.step({{"x", row(1)}});
  one.step({{"x", row(2)}});
  Decoder two = one.fork();
  const TensorMap a = one.step({{"x", row(3)}}), b = two.step({{"x", row(4)}});
  EXPECT_EQ(floats_of(a.at("y")), std::vector<float>(8, 12));
  EXPECT_EQ(floats_of(b.at("y")), std::vector<float>(8, 14));
  const RunStats before = one.stats();
  EXPECT_EQ(floats_of(one.step({{"x", row(1)}}).at("y"))[0], 14);
  EXPECT_EQ(floats_of(two.step({{"x", row(1)}}).at("y"))[0], 16);
  EXPECT_EQ(one.stats().cache_copies, before.cache_copies);
  one.reset();
  EXPECT_EQ(one.length(), 0);
  EXPECT_EQ(floats_of(one.step({{"x", row(1)}}).at("y"))[0], 2);
}

TEST(Decoder, AnErrorLeavesTheCachesAsTheyWere) {
  Decoder decoder(on_cpu(appending()));
  decoder.step({{"x", row(1)}});
  decoder.step({{"x", row(2)}});
  EXPECT_NE(error_in([&] { decoder.step({{"x", row(1, 3)}}); }), "");
  EXPECT_EQ(decoder.cache("past_k").shape(), (Shape{2, 4, 4}));
  EXPECT_EQ(floats_of(decoder.step({{"x", row(3)}}).at("y"))[0], 12);
}

TEST(Decoder, LimitsAreKept) {
  GraphParts parts = appending();
  parts.inputs[0] = shaped("inputs_embeds", kFloat, {"b", "s", 4});
  parts.nodes[0] = node("Concat", {"past_k", "inputs_embeds"}, {"present_k"}, {int_attribute("axis", 1)});
  DecoderOptions options;
  options.max_length = 5;
  Decoder decoder(on_cpu(parts), options);
  decoder.step({{"inputs_embeds", row(1, 2, 4)}});
  const std::string error = error_in([&] { decoder.step({{"inputs_embeds", row(1)}}); });
  EXPECT_NE(error.find("limit of 5"), std::string::npos) << error;
  decoder.step({{"inputs_embeds", row(1, 2, 1)}});
  EXPECT_EQ(decoder.length(), 5);
}

TEST(Decoder, NothingToFeedBack) {
  EXPECT_NE(error_in([] {
              Decoder decoder(on_cpu({.nodes = {node("Relu", {"x"}, {"y"})},
                                      .inputs = {shaped("x", kFloat, {"n"})},
                                      .outputs = {shaped("y", kFloat, {"n"})}}));
            }).find("nothing to decode with"),
            std::string::npos);
}

}  // namespace
}  // namespace transmuter::runtime::testing
