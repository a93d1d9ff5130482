// What a compiled model keeps and counts: traces, bound sizes, working memory; and that it can be made ready ahead.
#include <atomic>
#include <thread>

#include "backends/weight_store.h"
#include "ir/builder.h"
#include "runtime/engine.h"
#include "runtime_models.h"

namespace transmuter::runtime::testing {
namespace {

CompiledModel compiled_on(const Model& model, const std::string& backend, int cache_size = 8) {
  CompileOptions options;
  options.backend = backend;
  options.threads = 1;
  options.cache_size = cache_size;
  return model.compile(options);
}

TensorMap encoder_inputs(int64_t batch, int64_t sequence) {
  return {{"ids", ids({batch, sequence}, 32)},
          {"mask", Tensor(std::vector<int64_t>(static_cast<size_t>(batch * sequence), 1), {batch, sequence})}};
}

TEST(Cache, NewSizesAreBoundAndKeptNotCompiled) {
  const CompiledModel run = compiled_on(load(encoder().parts), "cpu");
  for (int repeat = 0; repeat < 3; ++repeat)
    for (const int64_t sequence : {4, 7, 9}) run(encoder_inputs(2, sequence));
  const RunStats stats = run.stats();
  EXPECT_EQ(stats.runs, 9);
  EXPECT_EQ(stats.traces, 1);
  EXPECT_EQ(stats.binds, 3);
  EXPECT_EQ(stats.plan_hits, 6);
  EXPECT_EQ(stats.evictions, 0);
  EXPECT_GT(stats.bind_us, 0);
  EXPECT_GT(stats.compile_ms, 0);
  EXPECT_GT(stats.arena_bytes, 0);
}

TEST(Cache, PlansAndTracesThatWereUsedLongestAgoGo) {
  const CompiledModel run = compiled_on(load(encoder().parts), "cpu", 2);
  for (int64_t sequence = 2; sequence < 42; ++sequence) run(encoder_inputs(2, sequence));
  EXPECT_EQ(run.stats().traces, 1);
  EXPECT_EQ(run.stats().plan_evictions, 40 - 16);
  run(encoder_inputs(1, 5));
  run(encoder_inputs(2, 5));
  run(encoder_inputs(1, 1));  // (1, 5) goes
  EXPECT_EQ(run.stats().traces, 3);
  EXPECT_EQ(run.stats().evictions, 1);
  run(encoder_inputs(2, 5));
  EXPECT_EQ(run.stats().traces, 3);
  run(encoder_inputs(1, 5));
  EXPECT_EQ(run.stats().traces, 4);
}

TEST(Cache, ALoopIsPartOfItsTrace) {
  const SmallModel small = looper();
  const CompiledModel run = compiled_on(load(small.parts), "cpu");
  for (int round = 0; round < small.rounds; ++round) run(small.inputs(round));
  const RunStats stats = run.stats();
  EXPECT_LE(stats.traces, 2);  // x has one element, or more
  EXPECT_EQ(stats.body_traces, 0);
  EXPECT_EQ(stats.breaks, 0);
}

TEST(Cache, TrimFreesWhatIsMadeAgain) {
  const CompiledModel run = compiled_on(load(encoder().parts), "cpu");
  const TensorMap inputs = encoder_inputs(2, 9), expected = run(inputs);
  run.trim();
  EXPECT_EQ(run.stats().arena_bytes, 0);
  EXPECT_EQ(difference(run(inputs), expected), "");
  EXPECT_EQ(run.stats().binds, 2);
  EXPECT_EQ(run.stats().traces, 1);
}

TEST(Cache, OptionsThatMakeNoSenseAreRefused) {
  const Model model = load(encoder().parts);
  EXPECT_THROW(compiled_on(model, "cpu", 0), Error);
  CompileOptions options;
  for (const int threads : {-1, 1 << 20}) {
    options.threads = threads;
    EXPECT_THROW(model.compile(options), Error);
  }
}

TEST(WarmUp, LaterCallsNeitherTraceNorAllocate) {
  const CompiledModel run = compiled_on(load(encoder().parts), "cpu");
  run.warm_up({.sizes = {{"batch", {1, 3}}, {"sequence", {1, 16}}}});
  const RunStats before = run.stats();
  EXPECT_EQ(before.traces, 4);
  const CompiledModel cold = compiled_on(load(encoder().parts), "cpu");
  for (const int64_t batch : {1, 2, 3}) {
    for (const int64_t sequence : {1, 2, 15, 16})
      EXPECT_EQ(difference(run(encoder_inputs(batch, sequence)), cold(encoder_inputs(batch, sequence))), "");
  }
  EXPECT_EQ(run.stats().traces, before.traces);
  EXPECT_EQ(run.stats().arena_bytes, before.arena_bytes);
}

TEST(WarmUp, TakesShapesValuesAndFlagsBothWays) {
  const CompiledModel run = compiled_on(load(brancher().parts), "reference");
  EXPECT_NE(error_in([&] { run.warm_up({.sizes = {{"n", {2, 8}}}}); }), "");  // a scalar shape says nothing
  run.warm_up({.sizes = {{"n", {2, 8}}}, .values = {{"flag", truth(true)}}});
  run.warm_up({.shapes = {{"x", {5}}}, .values = {{"flag", truth(false)}}});
  EXPECT_EQ(run.stats().traces, 2);
  run({{"x", counting({3})}, {"flag", truth(false)}});
  EXPECT_EQ(run.stats().traces, 2);

  GraphParts parts = brancher().parts;
  parts.inputs[1] = shaped("flag", kBool, {1});
  const CompiledModel both = compiled_on(load(parts), "cpu");
  both.warm_up({.sizes = {{"n", {2, 8}}}});
  EXPECT_EQ(both.stats().traces, 2);
}

TEST(WarmUp, SumsOfSizesFollow) {
  const GraphParts parts{.nodes = {node("Concat", {"past", "new"}, {"all"}, {int_attribute("axis", 0)}),
                                   node("Add", {"all", "mask"}, {"y"})},
                         .inputs = {shaped("past", kFloat, {"past_length"}), shaped("new", kFloat, {"length"}),
                                    shaped("mask", kFloat, {"past_length + length"})},
                         .outputs = {value("y")}};
  const CompiledModel run = compiled_on(load(parts), "cpu");
  run.warm_up({.sizes = {{"past_length", {0, 9}}, {"length", {1, 1}}}});
  EXPECT_EQ(run.stats().traces, 3);  // no past, one, more
  run({{"past", counting({4})}, {"new", counting({1})}, {"mask", counting({5})}});
  EXPECT_EQ(run.stats().traces, 3);
}

TEST(WarmUp, WhatIsMissingOrUnknownIsNamed) {
  const CompiledModel run = compiled_on(load(encoder().parts), "cpu");
  const auto error = [&](const WarmUp& expected) { return error_in([&] { run.warm_up(expected); }); };
  EXPECT_NE(error({.sizes = {{"batch", {1, 2}}}}).find("nothing tells the size sequence"), std::string::npos);
  EXPECT_NE(error({.sizes = {{"length", {1, 2}}}}).find("no input has a size named length"), std::string::npos);
  EXPECT_NE(error({.sizes = {{"batch", {3, 2}}}}).find("holds no size"), std::string::npos);
  EXPECT_NE(error({.shapes = {{"text", {1}}}}).find("no input text"), std::string::npos);
  // An error of the run says which sizes it was.
  EXPECT_NE(error({.shapes = {{"ids", {2, 3}}, {"mask", {2, 4}}}}).find("warm-up with"), std::string::npos);
  run.warm_up({.sizes = {{"batch", {2, 2}}, {"sequence", {3, 3}}}});
}

TEST(BadInput, IsAnErrorAndTheNextCallWorks) {
  const GraphParts parts{.nodes = {node("MatMul", {"x", "w"}, {"p"}), node("Add", {"p", "z"}, {"y"})},
                         .inputs = {shaped("x", kFloat, {"n", "k"}), shaped("z", kFloat, {"n", 2})},
                         .outputs = {value("y")},
                         .initializers = {weight("w", {4, 2}, 1)}};
  for (const char* backend : {"cpu", "reference"}) {
    const CompiledModel run = compiled_on(load(parts), backend);
    const TensorMap good{{"x", counting({3, 4})}, {"z", counting({3, 2})}};
    const TensorMap expected = run(good);
    const std::vector<TensorMap> bad = {
        {{"x", counting({3, 5})}, {"z", counting({3, 2})}},                           // against an assertion
        {{"x", counting({3, 4})}, {"z", counting({2, 2})}},                           // sizes that don't go together
        {{"x", counting({3, 4})}, {"z", counting({3, 3})}},                           // a declared size
        {{"x", counting({12})}, {"z", counting({3, 2})}},                             // rank
        {{"x", counting({3, 4}).cast(DType::f64)}, {"z", counting({3, 2})}},          // dtype
        {{"x", counting({3, 4})}},                                                    // missing
        {{"x", counting({3, 4})}, {"z", counting({3, 2})}, {"more", counting({1})}},  // unknown
        {{"x", Value::sequence({counting({3, 4})})}, {"z", counting({3, 2})}},        // no tensor
        {{"x", Tensor()}, {"z", counting({3, 2})}},                                   // nothing in it
    };
    for (size_t i = 0; i < bad.size(); ++i) {
      try {
        run(bad[i]);
        ADD_FAILURE() << backend << " takes bad input " << i;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_input) << backend << " " << i << ": " << error.what();
      }
      EXPECT_EQ(difference(run(good), expected), "") << backend << " after bad input " << i;
    }
    EXPECT_EQ(run.stats().traces, 1) << backend;
  }
}

TEST(WeightStore, MakesOnceForAllThreadsAndAgainAfterAFailure) {
  WeightStore store;
  const Tensor source = counting({4});
  std::atomic<int> made{0}, failed{0};
  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<const int>> got(4);
  for (size_t t = 0; t < got.size(); ++t) {
    threads.emplace_back([&, t] {
      const auto make = [&] {
        if (++made == 1) throw std::bad_alloc();
        return std::make_shared<const int>(7);
      };
      for (int attempt = 0; attempt < 2 && !got[t]; ++attempt) {
        try {
          got[t] = store.get<int>("key", source, make);
        } catch (const std::bad_alloc&) {
          ++failed;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 2);
  EXPECT_EQ(failed, 1);
  for (const auto& one : got) EXPECT_EQ(one, got[0]);
  EXPECT_FALSE(source.unique());  // kept by the entry
  got.clear();
  EXPECT_TRUE(source.unique());
}

TEST(WeightStore, WhatWeightsAloneDecideIsPreparedOnceForAllTraces) {
  ir::Builder build(nullptr);
  const ir::Value x = build.input({DType::f32, {3, 40}}, "x"), w = build.weight(noise({3, 40}, 1), "w");
  const ir::Program program = build.finish({build.add(x, build.multiply(w, w))}, {"y"});
  Engine engine;
  engine.backend = Backend::get("cpu");
  engine.options.weights = std::make_shared<WeightStore>();
  const auto prepared = [](const ir::Program& made) {
    for (const ir::Parameter& p : made.parameters())
      if (p.prepared) return p.weight.bytes();
    return static_cast<const std::byte*>(nullptr);
  };
  const ir::Program one = engine.prepare(program), other = engine.prepare(program);
  EXPECT_NE(prepared(one), nullptr);
  EXPECT_EQ(prepared(one), prepared(other));
}

}  // namespace
}  // namespace transmuter::runtime::testing
