// A backend without data-dependent extents: what finds its own size runs between segments, loops are driven by the
// host.
#include "ir/composites/composites.h"
#include "onnx/graph.h"
#include "runtime/engine.h"
#include "runtime/graph_runner.h"
#include "runtime_testing.h"

namespace transmuter::runtime::testing {
namespace {

// The reference backend, which refuses what it doesn't claim to run.
class Restricted : public Backend {
 public:
  std::string name() const override { return "restricted"; }
  Capabilities capabilities() const override { return {.symbolic_shapes = true, .host_memory = true}; }
  bool takes_composite(const ir::Program& program, const ir::Op& op) const override {
    return inner_->takes_composite(program, op);
  }
  Buffer upload(const Tensor& tensor) const override { return inner_->upload(tensor); }
  Tensor download(const Buffer& buffer) const override { return inner_->download(buffer); }
  std::unique_ptr<Executable> compile(const ir::Program& program, const BackendOptions& options) const override {
    for (const ir::Op& op : program.ops()) {
      namespace composite = ir::composite;
      for (const ir::Primitive* p : {&composite::nonzero, &composite::nms, &composite::unique, &composite::compress,
                                     &composite::read_values, &composite::loop})
        if (op.primitive == p) throw Error(ErrorCode::internal, std::string(p->name) + " reached the backend");
    }
    return inner_->compile(program, options);
  }

 private:
  std::shared_ptr<Backend> inner_ = Backend::get("reference");
};

struct Runner {
  explicit Runner(const GraphParts& parts) {
    auto parsed = std::make_shared<onnx::Model>(
        parse(model({.graph = graph(parts), .opsets = {opset("", 18)}, .ir_version = 9})));
    auto engine = std::make_shared<Engine>();
    engine->backend = std::make_shared<Restricted>();
    state = engine->state;
    runner = std::make_unique<GraphRunner>(std::shared_ptr<const onnx::Graph>(parsed, &parsed->graph),
                                           std::move(engine), GraphRunner::Role::model);
  }
  std::vector<Value> run(const std::vector<Value>& inputs) { return runner->run(inputs, RunContext()); }
  int64_t traces() const { return state->counters.traces.load(); }
  int64_t body_traces() const { return state->counters.body_traces.load(); }
  int64_t breaks() const { return state->counters.breaks.load(); }
  std::shared_ptr<RunState> state;
  std::unique_ptr<GraphRunner> runner;
};

TEST(Restricted, DataDependentExtentsRunBetweenSegments) {
  Runner runner({.nodes = {node("Mul", {"x", "w"}, {"scaled"}), node("NonZero", {"scaled"}, {"found"}),
                           node("Compress", {"x", "keep"}, {"kept"}, {int_attribute("axis", 0)}),
                           node("Unique", {"scaled"}, {"distinct"}), node("Neg", {"found"}, {"y"}),
                           node("Mul", {"kept", "w"}, {"z"})},
                 .inputs = {shaped("x", kFloat, {"n"}), shaped("keep", kBool, {"n"})},
                 .outputs = {value("y", kInt64), value("z"), value("distinct")},
                 .initializers = {float_tensor("w", {2})}});
  const auto with = [&](std::vector<float> x, std::vector<uint8_t> keep) {
    const int64_t n = static_cast<int64_t>(x.size());
    return runner.run({Tensor(x, {n}), Tensor(keep, {n}).bitcast(DType::boolean)});
  };
  for (int i = 0; i < 2; ++i) {
    const std::vector<Value> out = with({0, 3, 3, 1}, {1, 0, 1, 1});
    EXPECT_EQ(floats_of(out[0]), (std::vector<float>{-1, -2, -3}));
    EXPECT_EQ(floats_of(out[1]), (std::vector<float>{0, 6, 2}));
    EXPECT_EQ(floats_of(out[2]), (std::vector<float>{0, 2, 6}));
    EXPECT_EQ(floats_of(with({0, 0}, {0, 0})[0]).size(), 0u);
  }
  EXPECT_EQ(runner.traces(), 1);
  EXPECT_EQ(runner.breaks(), 3);
}

TEST(Restricted, ALoopThatGrowsReusesTheTracesOfItsBody) {
  const std::string body = graph({.nodes = {node("Concat", {"state", "row"}, {"grown"}, {int_attribute("axis", 0)}),
                                            node("Identity", {"go"}, {"on"}), node("Mul", {"grown", "w"}, {"scaled"}),
                                            node("ReduceSum", {"scaled"}, {"sum"}, {int_attribute("keepdims", 0)})},
                                  .inputs = {value("i", kInt64), value("go", kBool), value("state")},
                                  .outputs = {value("on", kBool), value("grown"), value("sum")},
                                  .name = "body"});
  Runner runner({.nodes = {node("Loop", {"trips", "", "x"}, {"y", "sums"}, {graph_attribute("body", body)})},
                 .inputs = {shaped("trips", kInt64, {}), shaped("x", kFloat, {"n"}), shaped("w", kFloat, {1})},
                 .outputs = {value("y"), value("sums")},
                 .initializers = {float_tensor("row", {1})}});
  int64_t after_first = 0;
  for (const int64_t trips : {40, 3, 0, 60}) {
    const std::vector<Value> out =
        runner.run({Tensor::scalar(trips), Tensor(std::vector<float>(), {0}), Tensor(std::vector<float>{2}, {1})});
    EXPECT_EQ(floats_of(out[0]).size(), static_cast<size_t>(trips));
    EXPECT_EQ(floats_of(out[1]).size(), static_cast<size_t>(trips));
    if (trips > 0) {
      EXPECT_EQ(floats_of(out[1]).back(), 2 * static_cast<float>(trips));
    }
    if (!after_first) after_first = runner.body_traces();
  }
  EXPECT_LE(after_first, 3);  // of 0, of 1, of more rows
  EXPECT_EQ(runner.body_traces(), after_first);
  EXPECT_EQ(runner.traces(), 1);
}

}  // namespace
}  // namespace transmuter::runtime::testing
