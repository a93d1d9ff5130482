// Programs for capacities: the plain interpreter must find the same in them as in the program they were made from, for
// every size that fits; and what cannot be had so is refused. On a real plugin ($TRANSMUTER_PJRT_PLUGIN), a cache that
// grows from run to run.
#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/pjrt/padded.h"
#include "backends/run_state.h"
#include "ir/builder.h"
#include "ir/evaluate.h"
#include "ir/passes/rescope.h"
#include "random_tensor.h"
#include "transmuter/backend.h"

namespace transmuter {
namespace {

using ir::Builder;
using ir::Program;
using ir::ReduceKind;
using ir::Value;

// Element by element: the tensor's own ones under other extents; `fill` elsewhere.
Tensor resized(const Tensor& tensor, const Shape& room, float fill) {
  const std::vector<double> from = tensor.cast(DType::f64).to_vector<double>();
  std::vector<double> to(static_cast<size_t>(element_count(room)), fill);
  std::vector<int64_t> place(room.size(), 0);
  for (double& element : to) {
    size_t index = 0;
    bool own = true;
    for (size_t i = 0; i < place.size(); ++i) {
      own = own && place[i] < tensor.shape()[i];
      index = index * static_cast<size_t>(tensor.shape()[i]) + static_cast<size_t>(place[i]);
    }
    if (own) element = from[index];
    for (size_t i = place.size(); i > 0 && ++place[i - 1] == room[i - 1]; --i) place[i - 1] = 0;
  }
  return Tensor(to, room).cast(tensor.dtype());
}

// A program over inputs with symbolic extents, and what makes inputs for sizes of the symbols, in order.
struct Case {
  std::shared_ptr<ShapeScope> scope = ShapeScope::create();
  ShapeScope::Enter enter{scope};
  Builder build{scope};
};

void expect_same(const Program& program, const std::vector<Tensor>& inputs, const std::vector<int64_t>& symbols) {
  std::vector<ir::Type> types;
  for (const ir::Parameter& parameter : program.parameters()) types.push_back(program.type(parameter.value));
  const auto bind = [&] {
    Bindings bindings(program.scope());
    for (size_t i = 0; i < symbols.size(); ++i) bindings.set(static_cast<int32_t>(i), symbols[i]);
    return bindings;
  };
  Bindings bindings = bind();
  const pjrt::Capacities capacities(program, pjrt::varying_symbols(types, *program.scope()), 8);
  const std::vector<int64_t> rooms = capacities.rooms(bindings);
  std::string why;
  const auto padded = pjrt::padded_form(program, capacities, rooms, why);
  ASSERT_TRUE(padded) << why;
  std::vector<Tensor> given;
  for (size_t i = 0; i < inputs.size(); ++i)
    given.push_back(resized(inputs[i], bindings.evaluate(capacities.room(types[i].shape, rooms)), 0));
  const std::vector<int64_t> sizes = bindings.evaluate(capacities.sizes());
  given.push_back(Tensor(sizes, {static_cast<int64_t>(sizes.size())}));
  Bindings other = bind();
  const std::vector<Tensor> got = ir::evaluate(padded->program, given, &other),
                            want = ir::evaluate(program, inputs, &bindings);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(program.result_names()[i]);
    const Tensor own = resized(got[i], want[i].shape(), 0);
    const std::vector<double> g = own.cast(DType::f64).to_vector<double>(),
                              w = want[i].cast(DType::f64).to_vector<double>();
    for (size_t k = 0; k < g.size(); ++k) EXPECT_NEAR(g[k], w[k], 1e-5 * (1 + std::abs(w[k]))) << "element " << k;
    if (!padded->zeros[i]) continue;
    const std::vector<double> all = got[i].cast(DType::f64).to_vector<double>(),
                              clean = resized(own, got[i].shape(), 0).cast(DType::f64).to_vector<double>();
    EXPECT_EQ(all, clean) << "something lies behind";
  }
}

// One step of attention over a cache: past [1, 2, p, 4] ++ new -> present; a mask [1, t] over all, t >= p + 1.
TEST(PjrtPadded, AStepOfADecoder) {
  const Case c;
  Builder build(c.scope);
  const Dim p = c.scope->input_extent(0, 2, 5, "past"), t = c.scope->input_extent(3, 1, 6, "all");
  const Value past_k = build.input({DType::f32, {1, 2, p, 4}}, "past_k");
  const Value past_v = build.input({DType::f32, {1, 2, p, 4}}, "past_v");
  const Value now = build.input({DType::f32, {1, 2, 1, 4}}, "now");
  const Value mask = build.input({DType::i64, {1, t}}, "mask");
  const Value k = build.concatenate({past_k, now}, 2), v = build.concatenate({past_v, build.negate(now)}, 2);
  ir::DotGeneralAttributes scores, values;
  scores.lhs_batching = scores.rhs_batching = values.lhs_batching = values.rhs_batching = {0, 1};
  scores.lhs_contracting = scores.rhs_contracting = values.lhs_contracting = {3};
  values.rhs_contracting = {2};
  scores.dtype = values.dtype = DType::f32;
  const Value s = build.dot_general(now, k, scores);
  const Value seen = build.slice(mask, {0, 0}, {1, p + 1}, {1, 1});
  const Value hidden = build.compare(seen, build.like(seen, 0), ir::CompareDirection::eq);
  const Value masked = build.select(build.broadcast_in_dim(hidden, build.shape(s), {0, 3}), build.like(s, -1e30), s);
  const Value exps = build.exponential(
      build.subtract(masked, build.broadcast_to(build.reduce_keep(masked, ReduceKind::max, {3}), build.shape(s))));
  const Value weights =
      build.divide(exps, build.broadcast_to(build.reduce_keep(exps, ReduceKind::add, {3}), build.shape(s)));
  const Program program =
      build.finish({build.dot_general(weights, v, values), k, v, weights}, {"y", "k", "v", "weights"});
  EXPECT_TRUE(pjrt::appends_to_inputs(program));
  for (const int64_t past : {5, 7, 8, 15, 16, 2}) {
    Tensor mask_now = Tensor(std::vector<int64_t>(static_cast<size_t>(past) + 1, 1), {1, past + 1});
    mask_now.mutable_data<int64_t>()[1] = 0;
    expect_same(program,
                {random_tensor({1, 2, past, 4}, 1), random_tensor({1, 2, past, 4}, 2), random_tensor({1, 2, 1, 4}, 3),
                 mask_now},
                {past, past + 1});
  }
}

TEST(PjrtPadded, WhatMovesElements) {
  const Case c;
  Builder build(c.scope);
  const Dim n = c.scope->input_extent(0, 1, 5, "n");
  const Value x = build.input({DType::f32, {2, n, 3}}, "x"), at = build.input({DType::i64, {}}, "at");
  const Value zero = build.integer(DType::i64, 0), minus = build.scalar(DType::f32, -7);
  const Value row = build.constant(random_tensor({2, 1, 3}, 9));
  const Value turned = build.transpose(x, {2, 1, 0});
  const Value joined = build.concatenate({x, row, x, row}, 1);
  const Value folded = build.reshape(turned, {3, n, 2, 1});
  const Value last = build.slice(x, {0, n - 1, 0}, {2, n, 3}, {1, 1, 1});
  const Value behind = build.slice(x, {0, 1, 1}, {2, n, 3}, {1, 1, 1});
  const Value head = build.slice(x, {0, 0, 0}, {2, n - 2, 3}, {1, 1, 1});
  const Value wide = build.pad(x, minus, {0, 2, 1}, {0, 1, 0}, {0, 0, 0});
  const Value counted = build.convert(
      build.add(build.iota(DType::i64, {n}, 0), build.broadcast_in_dim(build.dim_value(n * 2, DType::i64), {n}, {})),
      DType::f32);
  const Value spread = build.add(x, build.broadcast_in_dim(counted, {2, n, 3}, {1}));
  const Value window = build.dynamic_slice(x, {zero, at, zero}, {2, 2, 3});
  const Value written = build.dynamic_update_slice(x, row, {zero, at, zero});
  ir::GatherAttributes rows;
  rows.offset_dims = {0, 1};
  rows.collapsed_slice_dims = {1};
  rows.start_index_map = {1};
  rows.index_vector_dim = 0;
  rows.slice_sizes = {2, 1, 3};
  const Value taken = build.gather(x, build.reshape(at, {1}), rows);
  const Program program = build.finish({turned, joined, folded, last, behind, head, wide, spread, window, written,
                                        taken, build.reverse(x, {0, 2}), build.concatenate({x, spread}, 2)},
                                       {"turned", "joined", "folded", "last", "behind", "head", "wide", "spread",
                                        "window", "written", "taken", "reverse", "beside"});
  for (const int64_t size : {5, 3, 8, 9, 12})
    for (const int64_t place : {int64_t{-1}, int64_t{1}, size - 1, size + 4})
      expect_same(program, {random_tensor({2, size, 3}, 4), Tensor::scalar(place)}, {size});
}

TEST(PjrtPadded, WhatCountsElements) {
  const Case c;
  Builder build(c.scope);
  const Dim n = c.scope->input_extent(0, 1, 5, "n");
  const Value x = build.input({DType::f32, {2, n}}, "x"), i = build.input({DType::i32, {2, n}}, "i");
  const Value garbage = build.add(build.exponential(x), build.like(x, 3));  // not zero behind its elements
  std::vector<Value> results;
  std::vector<std::string> names;
  for (const ReduceKind kind : {ReduceKind::add, ReduceKind::mul, ReduceKind::min, ReduceKind::max}) {
    results.push_back(build.reduce(garbage, kind, {1}));
    results.push_back(build.reduce(x, kind, {0, 1}));
    results.push_back(build.reduce(i, kind, {1}));
    names.insert(names.end(), {"garbage", "floats", "integers"});
  }
  ir::ReduceWindowAttributes sums;
  sums.window = {1, n};
  sums.strides = sums.base_dilation = sums.window_dilation = {1, 1};
  sums.pad_low = {0, n - 1};
  sums.pad_high = {0, 0};
  results.push_back(build.reduce_window(garbage, sums));
  ir::DotGeneralAttributes dot;
  dot.lhs_contracting = dot.rhs_contracting = {1};
  dot.dtype = DType::f32;
  results.push_back(build.dot_general(garbage, garbage, dot));
  ir::SortAttributes sort;
  results.push_back(build.sort({x}, sort)[0]);
  names.insert(names.end(), {"sums", "dot", "sort"});
  const Program program = build.finish(std::move(results), std::move(names));
  for (const int64_t size : {5, 2, 8, 11}) {
    const Tensor x_now = random_tensor({2, size}, 5);
    expect_same(program, {x_now, resized(x_now, x_now.shape(), 0).cast(DType::i32)}, {size});
  }
}

TEST(PjrtPadded, WhatIsRefused) {
  const auto why = [](const auto& make) {
    const Case c;
    Builder build(c.scope);
    const Dim n = c.scope->input_extent(0, 1, 6, "n");
    const Value x = build.input({DType::f32, {2, n, 3}}, "x");
    const Program program = build.finish({make(build, x, n)}, {"y"});
    Bindings bindings(c.scope);
    bindings.set(0, 6);
    const pjrt::Capacities capacities(program, {0}, 8);
    std::string reason;
    EXPECT_FALSE(pjrt::padded_form(program, capacities, capacities.rooms(bindings), reason));
    return reason;
  };
  EXPECT_NE(why([](Builder& b, Value x, Dim n) { return b.reshape(x, {2, n * 3}); }).find("merged"), std::string::npos);
  EXPECT_NE(why([](Builder& b, Value x, Dim) { return b.reverse(x, {1}); }).find("reverse"), std::string::npos);
  EXPECT_NE(why([](Builder& b, Value x, Dim) {
              ir::SortAttributes sort;
              sort.axis = 1;
              return b.sort({x}, sort)[0];
            }).find("sort"),
            std::string::npos);
  EXPECT_NE(why([](Builder& b, Value x, Dim n) {
              return b.slice(x, {0, 0, 0}, {2, n, 3}, {1, 2, 1});
            }).find("stride"),
            std::string::npos);
}

// ---- on a real plugin

TEST(PjrtCaches, GrowInAFewPrograms) {
  const char* plugin = std::getenv("TRANSMUTER_PJRT_PLUGIN");
  if (!plugin || !*plugin) GTEST_SKIP() << "TRANSMUTER_PJRT_PLUGIN names no plugin";
  const Case c;
  Builder build(c.scope);
  const Dim n = c.scope->input_extent(0, 1, 2, "past");
  const Value past = build.input({DType::f32, {1, n, 4}}, "past"), now = build.input({DType::f32, {1, 1, 4}}, "now");
  const Value all = build.concatenate({past, now}, 1);
  const Program program = build.finish({all, build.reduce(all, ReduceKind::max, {1})}, {"present", "most"});
  const auto backend = Backend::get("pjrt");
  for (const bool donated : {true, false}) {
    BackendOptions options;
    options.state = std::make_shared<RunState>();
    const auto executable = backend->compile(program, options);
    Tensor want = random_tensor({1, 2, 4}, 1);
    Buffer kept = backend->upload(want);
    for (int64_t length = 2; length < 300; ++length) {
      const Tensor row = random_tensor({1, 1, 4}, static_cast<uint32_t>(length));
      Bindings bindings(c.scope);
      bindings.set(0, length);
      std::vector<Buffer> inputs{kept, backend->upload(row)};
      inputs[0].donated = donated;
      std::vector<Buffer> results = executable->run(inputs, bindings);
      if (length % 40 == 0 && !donated) {
        EXPECT_EQ(backend->download(kept).to_vector<float>(), want.to_vector<float>());
      }
      Bindings plain(c.scope);
      plain.set(0, length);
      const std::vector<Tensor> expected = ir::evaluate(program, std::vector<Tensor>{want, row}, &plain);
      EXPECT_EQ(backend->download(results[1]).to_vector<float>(), expected[1].to_vector<float>());
      want = expected[0];
      kept = std::move(results[0]);
      EXPECT_EQ(kept.shape, want.shape());
    }
    EXPECT_EQ(backend->download(kept).to_vector<float>(), want.to_vector<float>());
    EXPECT_EQ(options.state->counters.binds.load(), 2);         // 256 rows, then 384
    EXPECT_EQ(options.state->counters.cache_copies.load(), 1);  // from the one to the other
  }
}

}  // namespace
}  // namespace transmuter
