// One small program for each differentiable primitive: for the tests of gradients and of the printer.
#pragma once

#include <functional>

#include "ir_testing.h"

namespace transmuter::ir {

using Values = const std::vector<Value>&;
struct ProgramRow {
  const char* name;
  std::vector<Shape> inputs;
  double low, high;  // the inputs are drawn from here
  std::function<Value(Builder&, Values)> fn;
};

inline Value square(Builder& b, Value x) { return b.multiply(x, x); }

inline std::vector<ProgramRow> differentiable_rows() {
  std::vector<ProgramRow> out;
  struct Unary {
    const char* name;
    Value (Builder::*fn)(Value);
    double low, high;
  };
  const Unary unary[] = {{"abs", &Builder::abs, -2, 2},
                         {"negate", &Builder::negate, -2, 2},
                         {"exponential", &Builder::exponential, -2, 2},
                         {"exponential_minus_one", &Builder::exponential_minus_one, -2, 2},
                         {"log", &Builder::log, 0.5, 3},
                         {"log_plus_one", &Builder::log_plus_one, -0.5, 3},
                         {"logistic", &Builder::logistic, -3, 3},
                         {"tanh", &Builder::tanh, -2, 2},
                         {"sine", &Builder::sine, -3, 3},
                         {"cosine", &Builder::cosine, -3, 3},
                         {"tan", &Builder::tan, -1, 1},
                         {"sqrt", &Builder::sqrt, 0.5, 3},
                         {"rsqrt", &Builder::rsqrt, 0.5, 3},
                         {"cbrt", &Builder::cbrt, 0.5, 3},
                         {"erf", &Builder::erf, -2, 2},
                         {"asin", &Builder::asin, -0.8, 0.8},
                         {"acos", &Builder::acos, -0.8, 0.8},
                         {"atan", &Builder::atan, -2, 2},
                         {"sinh", &Builder::sinh, -2, 2},
                         {"cosh", &Builder::cosh, -2, 2},
                         {"asinh", &Builder::asinh, -2, 2},
                         {"acosh", &Builder::acosh, 1.5, 3},
                         {"atanh", &Builder::atanh, -0.8, 0.8}};
  for (const Unary& u : unary)
    out.push_back({u.name, {{5}}, u.low, u.high, [fn = u.fn](Builder& b, Values v) { return (b.*fn)(v[0]); }});
  struct Binary {
    const char* name;
    Value (Builder::*fn)(Value, Value);
    double low, high;
  };
  const Binary binary[] = {{"add", &Builder::add, -2, 2},
                           {"subtract", &Builder::subtract, -2, 2},
                           {"multiply", &Builder::multiply, -2, 2},
                           {"divide", &Builder::divide, 0.5, 2},
                           {"remainder", &Builder::remainder, 1, 9},
                           {"power", &Builder::power, 0.5, 2},
                           {"maximum", &Builder::maximum, -2, 2},
                           {"minimum", &Builder::minimum, -2, 2},
                           {"atan2", &Builder::atan2, -2, 2}};
  for (const Binary& u : binary)
    out.push_back(
        {u.name, {{5}, {5}}, u.low, u.high, [fn = u.fn](Builder& b, Values v) { return (b.*fn)(v[0], v[1]); }});
  auto add = [&](const char* name, std::vector<Shape> inputs, std::function<Value(Builder&, Values)> fn) {
    out.push_back({name, std::move(inputs), -2, 2, std::move(fn)});
  };
  add("select", {{4}, {4}}, [](Builder& b, Values v) {
    return b.select(b.compare(v[0], v[1], CompareDirection::lt), square(b, v[0]), v[1]);
  });
  add("clamp", {{}, {6}, {}}, [](Builder& b, Values v) {
    return b.clamp(b.subtract(v[0], b.scalar(DType::f64, 2)), v[1], b.add(v[2], b.scalar(DType::f64, 2)));
  });
  add("convert", {{3}},
      [](Builder& b, Values v) { return square(b, b.convert(b.convert(v[0], DType::f64), DType::f64)); });
  add("complex", {{3}, {3}}, [](Builder& b, Values v) {
    Value z = b.complex(v[0], v[1]), w = b.multiply(z, z);
    Value q = b.divide(w, b.add(z, b.complex(b.like(v[0], 5), v[0])));
    return b.add(b.real(q), b.multiply(b.imag(q), b.imag(w)));
  });
  add("broadcast_in_dim", {{1, 3}}, [](Builder& b, Values v) { return b.broadcast_in_dim(v[0], {2, 3, 4}, {2, 1}); });
  add("broadcast_in_dim of a scalar", {{}}, [](Builder& b, Values v) { return b.broadcast_in_dim(v[0], {2, 3}, {}); });
  add("broadcast_in_dim transposed", {{2, 3}}, [](Builder& b, Values v) {
    return b.broadcast_in_dim(v[0], {3, 2, 2}, {1, 0});
  });
  add("reshape", {{2, 3}}, [](Builder& b, Values v) { return b.reshape(v[0], {3, 2}); });
  add("transpose", {{2, 3, 4}}, [](Builder& b, Values v) { return b.transpose(v[0], {2, 0, 1}); });
  add("concatenate", {{2, 1}, {2, 3}}, [](Builder& b, Values v) { return b.concatenate({v[0], v[1], v[0]}, 1); });
  add("slice", {{5, 4}}, [](Builder& b, Values v) { return b.slice(v[0], {1, 0}, {5, 4}, {2, 3}); });
  add("pad", {{3, 2}, {}}, [](Builder& b, Values v) { return b.pad(v[0], v[1], {1, -1}, {-1, 2}, {2, 0}); });
  add("reverse", {{3, 2}}, [](Builder& b, Values v) { return b.reverse(v[0], {0}); });
  for (ReduceKind kind : {ReduceKind::add, ReduceKind::mul, ReduceKind::max, ReduceKind::min})
    add("reduce", {{3, 4}}, [kind](Builder& b, Values v) { return b.reduce(v[0], kind, {1}); });
  add("dot_general", {{2, 3, 4}, {2, 4, 5}}, [](Builder& b, Values v) {
    DotGeneralAttributes a;
    a.lhs_batching = a.rhs_batching = {0};
    a.lhs_contracting = {2};
    a.rhs_contracting = {1};
    a.dtype = DType::f64;
    return b.dot_general(v[0], v[1], a);
  });
  add("convolution", {{1, 4, 5, 5}, {6, 2, 3, 3}}, [](Builder& b, Values v) {
    ConvolutionAttributes a;
    a.strides = {2, 1};
    a.pad_low = {1, 0};
    a.pad_high = {1, 2};
    a.lhs_dilation = {1, 1};
    a.rhs_dilation = {1, 2};
    a.feature_groups = 2;
    a.dtype = DType::f64;
    return b.convolution(v[0], v[1], a);
  });
  for (ReduceKind kind : {ReduceKind::add, ReduceKind::max})
    add("reduce_window", {{1, 2, 5}}, [kind](Builder& b, Values v) {
      ReduceWindowAttributes a;
      a.kind = kind;
      a.window = {1, 1, 3};
      a.strides = {1, 1, 2};
      a.base_dilation = a.window_dilation = {1, 1, 1};
      a.pad_low = {0, 0, 1};
      a.pad_high = {0, 0, 1};
      return b.reduce_window(v[0], a);
    });
  add("sort", {{2, 5}}, [](Builder& b, Values v) {
    SortAttributes a;
    a.axis = 1;
    return b.sort({v[0]}, a)[0];
  });
  add("gather", {{4, 3}}, [](Builder& b, Values v) {
    GatherAttributes a;
    a.offset_dims = {1};
    a.collapsed_slice_dims = {0};
    a.start_index_map = {0};
    a.index_vector_dim = 1;
    a.slice_sizes = {1, 3};
    return b.gather(v[0], b.constant(Tensor(std::vector<int64_t>{2, 0, 2}, {3})), a);
  });
  for (ScatterAttributes::Kind kind : {ScatterAttributes::Kind::set, ScatterAttributes::Kind::add})
    add("scatter", {{4, 3}, {2, 3}}, [kind](Builder& b, Values v) {
      ScatterAttributes a;
      a.kind = kind;
      a.update_window_dims = {1};
      a.inserted_window_dims = {0};
      a.scatter_dims_to_operand_dims = {0};
      a.index_vector_dim = 1;
      return b.scatter(v[0], b.constant(Tensor(std::vector<int64_t>{3, 1}, {2})), v[1], a);
    });
  add("dynamic_slice", {{4, 3}}, [](Builder& b, Values v) {
    Value one = b.integer(DType::i64, 1);
    return b.dynamic_slice(v[0], {one, one}, {2, 2});
  });
  add("dynamic_update_slice", {{4, 3}, {2, 2}}, [](Builder& b, Values v) {
    Value one = b.integer(DType::i64, 1);
    return b.dynamic_update_slice(v[0], v[1], {one, one});
  });
  return out;
}

}  // namespace transmuter::ir
