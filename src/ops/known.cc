#include "ops/known.h"

#include "base/strings.h"
#include "tensor/packed.h"
#include "transmuter/error.h"

namespace transmuter::ops {

bool knowable(DType dtype) {
  return dtype == DType::boolean || is_integer(dtype) || dtype == DType::f16 || dtype == DType::bf16 ||
         dtype == DType::f32 || dtype == DType::f64;
}

RealDType real_dtype(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return RealDType::f16;
    case DType::bf16:
      return RealDType::bf16;
    case DType::f64:
      return RealDType::f64;
    default:
      return RealDType::f32;
  }
}

bool Known::fully_known() const {
  switch (kind) {
    case Kind::none:
      return false;
    case Kind::splat:
    case Kind::iota:
      return value.known();
    case Kind::elements:
      for (const Scalar& s : elements)
        if (!s.known()) return false;
      return true;
  }
  return false;
}

Known Known::of(DType dtype, Dims shape, std::vector<Scalar> elements) {
  Known known;
  known.kind = Kind::elements;
  known.dtype = dtype;
  known.shape = std::move(shape);
  known.elements = std::move(elements);
  return known;
}

Known Known::vector(DType dtype, const Dims& values) {
  return of(dtype, {static_cast<int64_t>(values.size())}, {values.begin(), values.end()});
}

namespace {

// The number of elements when every extent is a constant and they are few enough to list; -1 otherwise.
int64_t listable_size(const Dims& shape) {
  bool empty = false;
  for (const Dim& d : shape) {
    if (!d.is_constant()) return -1;  // [0, n] too: the shape of an empty tensor still follows n
    empty = empty || d.hint() == 0;
  }
  if (empty) return 0;
  int64_t size = 1;
  for (const Dim& d : shape) {
    if (d.hint() > kKnownLimit || (size *= d.hint()) > kKnownLimit) return -1;
  }
  return size;
}

}  // namespace

Known Known::splat(DType dtype, Dims shape, Scalar value) {
  if (int64_t size = listable_size(shape); size >= 0) {
    return of(dtype, std::move(shape), std::vector<Scalar>(static_cast<size_t>(size), value));
  }
  Known known;
  known.kind = Kind::splat;
  known.dtype = dtype;
  known.shape = std::move(shape);
  known.value = value;
  return known;
}

Known Known::iota(DType dtype, Dims shape, int64_t axis, Dim start, Dim step) {
  if (int64_t size = listable_size(shape); size >= 0) {
    std::vector<Scalar> elements;
    int64_t inner = 1;
    for (size_t i = static_cast<size_t>(axis) + 1; i < shape.size(); ++i) inner *= shape[i].hint();
    const int64_t extent = shape[static_cast<size_t>(axis)].hint();
    for (int64_t i = 0; i < size; ++i) elements.emplace_back(start + step * Dim(i / inner % extent));
    return of(dtype, std::move(shape), std::move(elements));
  }
  Known known;
  known.kind = Kind::iota;
  known.dtype = dtype;
  known.shape = std::move(shape);
  known.value = start;
  known.step = step;
  known.axis = axis;
  return known;
}

Known Known::from(const Tensor& tensor) {
  if (!tensor || !knowable(tensor.dtype()) || tensor.size() > kKnownLimit) return {};
  Dims shape(tensor.shape().begin(), tensor.shape().end());
  std::vector<Scalar> elements;
  elements.reserve(static_cast<size_t>(tensor.size()));
  const Tensor plain = unpack(tensor.aligned());
  if (is_float(tensor.dtype())) {
    for (double v : plain.cast(DType::f64).to_vector<double>()) elements.emplace_back(Real(v));
  } else if (tensor.dtype() == DType::u64) {
    for (uint64_t v : plain.to_vector<uint64_t>()) {
      elements.push_back(v <= uint64_t{INT64_MAX} ? Scalar(Dim(static_cast<int64_t>(v))) : Scalar());
    }
  } else {
    for (int64_t v : plain.cast(DType::i64).to_vector<int64_t>()) elements.emplace_back(Dim(v));
  }
  return of(tensor.dtype(), std::move(shape), std::move(elements));
}

namespace {

Known zip_elements(const Known& a, const Known& b, DType dtype, ScalarFn2 fn) {
  const Dims shape = ir::broadcast_shapes(a.shape, b.shape, "broadcast");
  const int64_t size = listable_size(shape);
  if (size < 0) return {};
  const size_t rank = shape.size();
  auto offset = [&](const Known& k, int64_t flat) {
    int64_t index = 0, stride = 1;
    const size_t skip = rank - k.shape.size();
    for (size_t i = rank; i-- > 0;) {
      const int64_t extent = shape[i].hint();
      const int64_t position = flat % extent;
      flat /= extent;
      if (i < skip) continue;
      const int64_t own = k.shape[i - skip].hint();
      if (own != 1) index += position * stride;
      stride *= own;
    }
    return static_cast<size_t>(index);
  };
  std::vector<Scalar> elements(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    const Scalar& x = a.elements[offset(a, i)];
    const Scalar& y = b.elements[offset(b, i)];
    if (x.known() && y.known()) elements[static_cast<size_t>(i)] = fn(x, y, dtype);
  }
  return Known::of(dtype, shape, std::move(elements));
}

// The one value of a splat or of a single element.
const Scalar* single(const Known& k) {
  if (k.kind == Known::Kind::splat) return &k.value;
  if (k.kind == Known::Kind::elements && k.elements.size() == 1) return &k.elements[0];
  return nullptr;
}

}  // namespace

Known zip_known(const Known& a, const Known& b, DType dtype, ScalarFn2 fn) {
  if (!a || !b || a.kind == Known::Kind::iota || b.kind == Known::Kind::iota) return {};
  if (a.kind == Known::Kind::elements && b.kind == Known::Kind::elements) return zip_elements(a, b, dtype, fn);
  const Scalar* x = single(a);
  const Scalar* y = single(b);
  if (!x || !y) return {};
  return Known::splat(dtype, ir::broadcast_shapes(a.shape, b.shape, "broadcast"),
                      x->known() && y->known() ? fn(*x, *y, dtype) : Scalar());
}

namespace {

Tensor constant_tensor(DType dtype, const std::vector<Scalar>& scalars, Shape shape) {
  if (is_float(dtype)) {
    std::vector<double> values;
    for (const Scalar& s : scalars) values.push_back(s.real.hint());
    return Tensor(values, std::move(shape)).cast(dtype);
  }
  std::vector<int64_t> values;
  for (const Scalar& s : scalars) values.push_back(s.dim.hint());
  Tensor wide(values, std::move(shape));
  return is_packed(dtype) ? pack(wide.cast(unpacked_dtype(dtype)), dtype) : wide.cast(dtype);
}

bool is_constant(const Scalar& s) { return s.kind == Scalar::Kind::real ? s.real.is_constant() : s.dim.is_constant(); }

ir::Value scalar_value(ir::Builder& build, DType dtype, const Scalar& s) {
  if (!s.known()) throw Error(ErrorCode::internal, "an unknown element was asked for its value");
  if (is_constant(s)) return build.constant(constant_tensor(dtype, {s}, {}));
  return s.kind == Scalar::Kind::real ? build.real_value(s.real, dtype) : build.dim_value(s.dim, dtype);
}

ir::Value materialise_elements(ir::Builder& build, const Known& known) {
  Shape shape = hints(known.shape);
  bool constant = true;
  for (const Scalar& s : known.elements) constant = constant && s.known() && is_constant(s);
  if (constant) return build.constant(constant_tensor(known.dtype, known.elements, shape));
  if (known.shape.empty()) return scalar_value(build, known.dtype, known.elements[0]);
  std::vector<ir::Value> pieces;
  for (size_t i = 0; i < known.elements.size();) {  // runs of constants become one piece
    size_t end = i;
    while (end < known.elements.size() && known.elements[end].known() && is_constant(known.elements[end])) ++end;
    if (end > i) {
      std::vector<Scalar> run(known.elements.begin() + static_cast<int64_t>(i),
                              known.elements.begin() + static_cast<int64_t>(end));
      pieces.push_back(build.constant(constant_tensor(known.dtype, run, {static_cast<int64_t>(run.size())})));
      i = end;
    } else {
      pieces.push_back(build.reshape(scalar_value(build, known.dtype, known.elements[i]), {1}));
      ++i;
    }
  }
  return build.reshape(build.concatenate(std::move(pieces), 0), known.shape);
}

}  // namespace

ir::Value materialise(ir::Builder& build, const Known& known) {
  switch (known.kind) {
    case Known::Kind::elements:
      return materialise_elements(build, known);
    case Known::Kind::splat:
      return build.broadcast_in_dim(scalar_value(build, known.dtype, known.value), known.shape, {});
    case Known::Kind::iota: {
      const DType dtype = known.dtype;
      ir::Value x = build.iota(dtype, known.shape, known.axis);
      if (!provably_eq(known.step, 1)) {
        x = build.multiply(x, build.broadcast_in_dim(build.dim_value(known.step, dtype), known.shape, {}));
      }
      if (!provably_eq(known.value.dim, 0)) {
        x = build.add(x, build.broadcast_in_dim(build.dim_value(known.value.dim, dtype), known.shape, {}));
      }
      return x;
    }
    case Known::Kind::none:
      break;
  }
  throw Error(ErrorCode::internal, "nothing is known of a value that was to be materialised");
}

}  // namespace transmuter::ops
