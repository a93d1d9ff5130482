// Bad input where loops and caches are: one Error that says what, and the next call works.
#include <functional>
#include <thread>

#include "base/memory.h"
#include "runtime_models.h"

namespace transmuter::runtime::testing {
namespace {

struct Way {
  const char* backend;
  bool eager;
};

class BadLoops : public ::testing::TestWithParam<Way> {
 protected:
  static CompiledModel compiled_here(const GraphParts& parts, int64_t max_loop_trips = 1 << 24, int64_t opset = 18) {
    CompileOptions options;
    options.backend = GetParam().backend;
    options.eager = GetParam().eager;
    options.max_loop_trips = max_loop_trips;
    options.threads = 1;
    return load(parts, opset).compile(options);
  }
  // Of the Error of fn; ok where there is none.
  static std::pair<ErrorCode, std::string> failure(const std::function<void()>& fn) {
    try {
      fn();
    } catch (const Error& error) {
      return {error.code(), error.what()};
    }
    ADD_FAILURE() << "bad input is taken";
    return {ErrorCode::internal, ""};
  }
  // fn, cancelled after a while.
  static ErrorCode cancelled(const CompiledModel& run, const TensorMap& inputs) {
    const CancelToken token;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      token.cancel();
    });
    RunOptions options;
    options.cancel = &token;
    const ErrorCode code = failure([&] { run(inputs, options); }).first;
    other.join();
    return code;
  }
};
INSTANTIATE_TEST_SUITE_P(Ways, BadLoops,
                         ::testing::Values(Way{"cpu", false}, Way{"reference", false}, Way{"cpu", true}),
                         [](const auto& info) {
                           return std::string(info.param.backend) + (info.param.eager ? "_eager" : "");
                         });

std::string body_of(const std::vector<std::string>& nodes, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs) {
  return graph({.nodes = nodes, .inputs = inputs, .outputs = outputs, .name = "body"});
}

// Goes on while the sum of x is positive. The sequence is edited at its start, so the host drives the loop.
TEST_P(BadLoops, AnEndlessLoopThatTheHostDrives) {
  const std::string body = body_of(
      {node("SequenceErase", {"list", "zero"}, {"shorter"}), node("SequenceInsert", {"shorter", "x"}, {"longer"}),
       node("ReduceSum", {"x"}, {"sum"}, {int_attribute("keepdims", 0)}), node("Greater", {"sum", "none"}, {"on"})},
      {value("i", kInt64), value("go", kBool), value("list", 0)}, {value("on", kBool), value("longer", 0)});
  const GraphParts parts{.nodes = {node("SequenceConstruct", {"x", "x"}, {"list"}),
                                   node("Loop", {"", "", "list"}, {"left"}, {graph_attribute("body", body)})},
                         .inputs = {shaped("x", kFloat, {"n"})},
                         .outputs = {value("left", 0)},
                         .initializers = {tensor("none", kFloat, {}, floats({0})), int64_tensor("zero", {0}, true)}};
  const TensorMap endless{{"x", Tensor(std::vector<float>{1, 2}, {2})}};
  const TensorMap ends{{"x", Tensor(std::vector<float>{1, -2}, {2})}};
  const CompiledModel capped = compiled_here(parts, 200);
  for (int i = 0; i < 2; ++i) {
    const auto [code, what] = failure([&] { capped(endless); });
    EXPECT_EQ(code, ErrorCode::limit) << what;
    EXPECT_NE(what.find("after 200 trips"), std::string::npos) << what;
    EXPECT_EQ(capped(ends).at("left").items.size(), 2u);
  }
  const CompiledModel run = compiled_here(parts, INT64_MAX);
  EXPECT_EQ(cancelled(run, endless), ErrorCode::cancelled);
  EXPECT_EQ(run(ends).at("left").items.size(), 2u);
}

// A counted loop around one that does not end.
TEST_P(BadLoops, AnEndlessLoopInsideAnother) {
  const std::string inner =
      body_of({node("Add", {"s", "one"}, {"t"}), node("Greater", {"t", "limit"}, {"on"})},
              {value("j", kInt64), value("go2", kBool), value("s")}, {value("on", kBool), value("t")});
  const std::string outer =
      body_of({node("Loop", {"", "", "state"}, {"next"}, {graph_attribute("body", inner)}, "", "inner"),
               node("Identity", {"go"}, {"on"})},
              {value("i", kInt64), value("go", kBool), value("state")}, {value("on", kBool), value("next")});
  const GraphParts parts{
      .nodes = {node("Loop", {"trips", "", "x"}, {"y"}, {graph_attribute("body", outer)}, "", "outer")},
      .inputs = {shaped("trips", kInt64, {}), shaped("x", kFloat, {}), shaped("limit", kFloat, {})},
      .outputs = {value("y")},
      .initializers = {tensor("one", kFloat, {}, floats({1}))}};
  const auto with = [](float limit, int64_t trips = 3) {
    return TensorMap{{"trips", Tensor::scalar(trips)}, {"x", Tensor::scalar(0.F)}, {"limit", Tensor::scalar(limit)}};
  };
  const CompiledModel capped = compiled_here(parts, 500);
  EXPECT_EQ(floats_of(capped(with(10)).at("y")), (std::vector<float>{3}));
  const auto [code, what] = failure([&] { capped(with(-1)); });
  EXPECT_EQ(code, ErrorCode::limit) << what;
  EXPECT_NE(what.find("inner"), std::string::npos) << what;
  EXPECT_EQ(floats_of(capped(with(10)).at("y")), (std::vector<float>{3}));
  // Fewer trips than none are none; more than anybody waits for end with a cancellation.
  EXPECT_EQ(floats_of(capped(with(10, -5)).at("y")), (std::vector<float>{0}));
  EXPECT_EQ(cancelled(capped, with(1e30F, INT64_MAX)), ErrorCode::cancelled);
  EXPECT_EQ(floats_of(capped(with(10)).at("y")), (std::vector<float>{3}));
}

TEST_P(BadLoops, RowsThatDifferInSizeAndConditionsThatAreNone) {
  const std::string body = body_of({node("Add", {"i", "one"}, {"end"}), node("Unsqueeze", {"end", "axis"}, {"ends"}),
                                    node("Slice", {"x", "axis", "ends"}, {"row"}), node("Identity", {"go"}, {"on"})},
                                   {value("i", kInt64), value("go", kBool)}, {value("on", kBool), value("row")});
  const CompiledModel rows =
      compiled_here({.nodes = {node("Loop", {"trips", ""}, {"rows"}, {graph_attribute("body", body)})},
                     .inputs = {shaped("trips", kInt64, {}), shaped("x", kFloat, {"n"})},
                     .outputs = {value("rows")},
                     .initializers = {int64_tensor("one", {1}, true), int64_tensor("axis", {0})}});
  const auto with = [](int64_t trips) { return TensorMap{{"trips", Tensor::scalar(trips)}, {"x", counting({4})}}; };
  const auto [code, what] = failure([&] { rows(with(3)); });
  EXPECT_EQ(code, ErrorCode::invalid_input) << what;
  EXPECT_NE(what.find("differ"), std::string::npos) << what;
  EXPECT_NE(what.find("Loop"), std::string::npos) << what;
  EXPECT_EQ(floats_of(rows(with(1)).at("rows")), (std::vector<float>{0}));

  const std::string several =
      body_of({node("Greater", {"x", "zero"}, {"on"}), node("Identity", {"s"}, {"t"})},
              {value("i", kInt64), value("go", kBool), value("s")}, {value("on", kBool), value("t")});
  const CompiledModel run =
      compiled_here({.nodes = {node("Loop", {"trips", "", "x"}, {"y"}, {graph_attribute("body", several)})},
                     .inputs = {shaped("trips", kInt64, {}), shaped("x", kFloat, {"n"})},
                     .outputs = {value("y")},
                     .initializers = {tensor("zero", kFloat, {}, floats({0}))}});
  const auto [many, said] = failure([&] { run(with(3)); });
  EXPECT_TRUE(many == ErrorCode::invalid_model || many == ErrorCode::invalid_input) << said;
  EXPECT_NE(said.find("Loop"), std::string::npos) << said;
  EXPECT_EQ(floats_of(run({{"trips", Tensor::scalar(int64_t{3})}, {"x", counting({1})}}).at("y")),
            (std::vector<float>{0}));
}

// Lengths that the shared buffer of a GroupQueryAttention does not have.
TEST_P(BadLoops, ACacheBeyondItsBuffer) {
  GraphParts parts{
      .nodes = {node("GroupQueryAttention", {"q", "k", "v", "past_k", "past_v", "lengths", "total"},
                     {"y", "present_k", "present_v"}, {int_attribute("num_heads", 1), int_attribute("kv_num_heads", 1)},
                     "com.microsoft")},
      .inputs = {shaped("q", kFloat, {1, "s", 8}), shaped("k", kFloat, {1, "s", 8}), shaped("v", kFloat, {1, "s", 8}),
                 shaped("past_k", kFloat, {1, 1, "p", 8}), shaped("past_v", kFloat, {1, 1, "p", 8}),
                 shaped("lengths", 6, {1}), shaped("total", 6, {})},
      .outputs = {value("y")}};
  CompileOptions options;
  options.backend = GetParam().backend;
  options.eager = GetParam().eager;
  const CompiledModel run =
      load(model({.graph = graph(parts), .opsets = {opset("", 18), opset("com.microsoft", 1)}, .ir_version = 9}))
          .compile(options);
  const auto with = [&](int32_t length) {
    return TensorMap{{"q", noise({1, 1, 8}, 1)},
                     {"k", noise({1, 1, 8}, 2)},
                     {"v", noise({1, 1, 8}, 3)},
                     {"past_k", noise({1, 1, 4, 8}, 4)},
                     {"past_v", noise({1, 1, 4, 8}, 5)},
                     {"lengths", Tensor(std::vector<int32_t>{length - 1}, {1})},
                     {"total", Tensor(std::vector<int32_t>{4}, {})}};
  };
  const TensorMap expected = run(with(4));
  for (const int32_t length : {6, 100, -3}) {
    const auto [code, what] = failure([&] { run(with(length)); });
    EXPECT_EQ(code, ErrorCode::invalid_input) << length << " " << what;
    EXPECT_NE(what.find("GroupQueryAttention"), std::string::npos) << what;
    EXPECT_EQ(difference(run(with(4)), expected), "");
  }
}

TEST(BadInput, ALoopThatKeepsMoreThanThereIsStops) {
  LoopGrowth growth;
  growth.check(1 << 20, 0);
  growth.add_row(size_t{1} << 30);
  for (int64_t i = 0; i < 100; ++i) growth.add_row(8);
  LoopGrowth much;
  much.add_row(size_t{1} << 55);
  for (const bool rows : {false, true}) {
    try {
      if (rows) {
        much.check(8, 5);
      } else {
        growth.check(size_t{1} << 50, 5);
      }
      FAIL() << "memory that there is not";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
      EXPECT_NE(std::string(error.what()).find("after trip 5"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace transmuter::runtime::testing
