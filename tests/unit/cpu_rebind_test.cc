// Plans for other sizes: counted in steps bound, and right.
#include <gtest/gtest.h>

#include "backends/run_state.h"
#include "ir/composites/composites.h"
#include "ir/evaluate.h"
#include "ir_testing.h"
#include "transmuter/backend.h"

namespace transmuter {
namespace {

struct Model {
  std::shared_ptr<ShapeScope> scope = ShapeScope::create();
  std::shared_ptr<RunState> state = std::make_shared<RunState>();
  ir::Program program;
  std::unique_ptr<Executable> executable;
  int32_t rows = 0;  // the symbol

  // x [3, 8] through `fixed` softmaxes; p [s, 8] summed up and added to each row, joined with x, turned and cut.
  explicit Model(int fixed) {
    const ShapeScope::Enter enter(scope);
    ir::Builder b(scope);
    const ir::Value x = b.input({DType::f32, {3, 8}}, "x");
    const Dim s = scope->input_extent(1, 0, 4, "s");
    const ir::Value p = b.input({DType::f32, {s, 8}}, "p");
    ir::Value v = x;
    for (int i = 0; i < fixed; ++i) v = ir::softmax(b, b.reverse(v, {1}), i % 2);
    const ir::Value sum = b.broadcast_to(b.reduce(p, ir::ReduceKind::add, {0}), {3, 8});
    const ir::Value joined = b.concatenate({p, x}, 0);
    const ir::Value turned = b.slice_axis(b.transpose(joined, {1, 0}), 1, 1, s);
    const ir::Value flat = b.reshape(turned, {8 * (s - 1)});
    const ir::Value first = b.slice_axis(joined, 0, 0, 2);
    program = b.finish({b.add(v, sum), joined, ir::softmax(b, turned, 1), b.negate(flat), first, v});
    BackendOptions options;
    options.threads = 1;
    options.state = state;
    executable = Backend::get("cpu")->compile(program, options);
  }

  static Tensor filled(Shape shape, float scale) {
    std::vector<float> values(static_cast<size_t>(element_count(shape)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = scale * static_cast<float>(i % 13) - 2;
    return Tensor(values, std::move(shape));
  }

  // Runs for `s` rows and compares with the interpreter; how many steps were bound for it.
  int64_t bound_for(int64_t s) {
    const std::vector<Tensor> inputs = {filled({3, 8}, 0.5f), filled({s, 8}, 0.25f)};
    Bindings bindings(scope), plain(scope);
    bindings.set(rows, s);
    plain.set(rows, s);
    std::vector<Buffer> buffers;
    for (const Tensor& input : inputs) buffers.push_back({.host = input});
    const int64_t before = state->counters.bound_steps.load();
    const std::vector<Buffer> results = executable->run(buffers, bindings);
    const std::vector<Tensor> want = ir::evaluate(program, inputs, &plain);
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(results[i].host.shape(), want[i].shape()) << "result " << i << " for " << s << " rows";
      const std::vector<double> got = ir::numbers(results[i].host), expected = ir::numbers(want[i]);
      for (size_t k = 0; k < expected.size(); ++k) EXPECT_NEAR(got[k], expected[k], 1e-5) << i << ", " << k;
    }
    return state->counters.bound_steps.load() - before;
  }
};

TEST(CpuRebind, OnlyStepsThatSeeADifferenceAreBound) {
  Model small(20), large(60);
  const int64_t all_small = small.bound_for(4), all_large = large.bound_for(4);
  EXPECT_GE(all_large - all_small, 40);
  const int64_t few = small.bound_for(7);
  EXPECT_GT(few, 0);
  EXPECT_LE(few, 10);
  EXPECT_EQ(large.bound_for(7), few);  // whatever else there is
  EXPECT_EQ(small.bound_for(4), 0);
  EXPECT_EQ(small.bound_for(7), 0);
}

TEST(CpuRebind, ManySizesInAnyOrder) {
  Model model(20);
  for (const int64_t s : {5, 2, 9, 3, 100, 2, 64, 33, 3}) model.bound_for(s);
  model.executable->trim();
  EXPECT_GT(model.bound_for(3), 20);
  for (int64_t s = 40; s > 2; --s) EXPECT_LE(model.bound_for(s), 10);
}

TEST(CpuRebind, WhereMostStepsSeeItMostAreBound) {
  Model model(0);
  const int64_t all = model.bound_for(4);
  for (const int64_t s : {5, 2, 70}) EXPECT_GT(2 * model.bound_for(s), all) << s;
}

}  // namespace
}  // namespace transmuter
