// NumPy broadcasting over Dims, and the helpers that add and drop extents of 1.
#include <algorithm>

#include "ir/builder.h"
#include "ir/primitives/infer.h"

namespace transmuter::ir {

namespace {

bool provably_not_one(Dim a) { return provably_le(2, a) || provably_le(a, 0); }

Dim broadcast_data_dependent(Dim a, Dim b, const std::string& what) {
  Dim fits = max(equal(a, b), max(equal(a, 1), equal(b, 1)));
  require(fits, str(what, ": extents must broadcast"));
  if (provably_not_one(a)) return a;
  if (provably_not_one(b)) return b;
  return select(equal(a, 1), b, a);
}

}  // namespace

Dim broadcast_dim(Dim a, Dim b, const std::string& what) {
  if (a.is_constant() && a.hint() == 1) return b;
  if (b.is_constant() && b.hint() == 1) return a;
  if (provably_eq(a, b)) return b.is_constant() ? b : a;
  if (is_data_dependent(a) || is_data_dependent(b)) return broadcast_data_dependent(a, b, what);
  // Settled by intervals for nearly every extent; a guard is left only where an expression could be 1 in another run.
  std::string why = str(what, ": extent 1 repeats");
  if (decide_eq(a, 1, why.c_str())) return b;
  if (decide_eq(b, 1, why.c_str())) return a;
  require_eq(a, b, str(what, ": extents must be equal or 1"));
  return b.is_constant() ? b : a;
}

Dims broadcast_shapes(const Dims& a, const Dims& b, const std::string& what) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims out = longer;
  size_t shift = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) out[shift + i] = broadcast_dim(longer[shift + i], shorter[i], what);
  return out;
}

Value Builder::broadcast_to(Value x, const Dims& to) {
  int64_t shift = static_cast<int64_t>(to.size()) - rank(x);
  if (shift < 0) throw Error(ErrorCode::invalid_model, str("broadcast: ", to_string(type(x)), " has too many axes"));
  std::vector<int64_t> dimensions;
  for (int64_t i = 0; i < rank(x); ++i) dimensions.push_back(shift + i);
  return broadcast_in_dim(x, to, std::move(dimensions));
}

std::pair<Value, Value> Builder::numpy_broadcast(Value a, Value b) {
  Dims to = broadcast_shapes(shape(a), shape(b), "broadcast");
  Value wide_a = broadcast_to(a, to);
  return {wide_a, broadcast_to(b, to)};
}

Value Builder::expand_dims(Value x, const std::vector<int64_t>& axes) {
  Dims to = shape(x);
  for (int64_t axis : axes) {
    if (axis < 0 || axis > static_cast<int64_t>(to.size()))
      throw Error(ErrorCode::invalid_model, str("expand_dims: axis ", axis, " of ", to_string(type(x))));
    to.insert(to.begin() + axis, 1);
  }
  return reshape(x, std::move(to));
}

Value Builder::squeeze(Value x, const std::vector<int64_t>& axes) {
  Dims to;
  for (int64_t i = 0; i < rank(x); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end())
      to.push_back(shape(x)[static_cast<size_t>(i)]);
    else
      require_eq(shape(x)[static_cast<size_t>(i)], 1, str("squeeze: axis ", i, " must have extent 1"));
  }
  return reshape(x, std::move(to));
}

Value Builder::reduce_keep(Value x, ReduceKind kind, const std::vector<int64_t>& axes) {
  Dims to = shape(x);
  for (int64_t axis : axes) {
    if (axis < 0 || axis >= rank(x))
      throw Error(ErrorCode::invalid_model, str("reduce: axis ", axis, " of ", to_string(type(x))));
    to[static_cast<size_t>(axis)] = 1;
  }
  return reshape(reduce(x, kind, axes), std::move(to));
}

}  // namespace transmuter::ir
