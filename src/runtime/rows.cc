#include "runtime/rows.h"

#include <algorithm>
#include <cstring>

#include "base/strings.h"
#include "tensor/packed.h"

namespace transmuter::runtime {
namespace {

int64_t product(const Shape& shape, size_t begin, size_t end) {
  int64_t count = 1;
  for (size_t i = begin; i < end; ++i) count *= shape[i];
  return count;
}

// `count` elements of one tensor into another of the same dtype (not packed).
void copy_elements(const Tensor& from, int64_t from_first, Tensor& to, int64_t to_first, int64_t count) {
  if (from.dtype() == DType::string) {
    const auto begin = from.strings().begin() + from_first;
    std::copy(begin, begin + count, to.mutable_strings().begin() + to_first);
    return;
  }
  const size_t width = byte_size(from.dtype(), 1);
  if (count > 0)
    std::memcpy(to.mutable_bytes() + static_cast<size_t>(to_first) * width,
                from.bytes() + static_cast<size_t>(from_first) * width, static_cast<size_t>(count) * width);
}

// fn on one byte an element where the dtype packs them closer.
template <class Fn>
Tensor unpacked(const Tensor& x, const Fn& fn) {
  return is_packed(x.dtype()) ? pack(fn(unpack(x)), x.dtype()) : fn(x);
}

}  // namespace

Tensor take(const Tensor& x, int64_t axis, int64_t i) {
  return unpacked(x, [&](const Tensor& from) {
    Shape shape = from.shape();
    const size_t at = static_cast<size_t>(axis);
    const int64_t outer = product(shape, 0, at), extent = shape[at], inner = product(shape, at + 1, shape.size());
    shape.erase(shape.begin() + axis);
    Tensor out(from.dtype(), shape);
    for (int64_t o = 0; o < outer; ++o) copy_elements(from, (o * extent + i) * inner, out, o * inner, inner);
    return out;
  });
}

Tensor part(const Tensor& x, int64_t axis, int64_t start, int64_t count) {
  return unpacked(x, [&](const Tensor& from) {
    Shape shape = from.shape();
    const size_t at = static_cast<size_t>(axis);
    const int64_t outer = product(shape, 0, at), extent = shape[at], inner = product(shape, at + 1, shape.size());
    shape[at] = count;
    Tensor out(from.dtype(), shape);
    for (int64_t o = 0; o < outer; ++o)
      copy_elements(from, (o * extent + start) * inner, out, o * count * inner, count * inner);
    return out;
  });
}

Tensor stack(const std::vector<Value>& rows, const onnx::ValueInfo& declared, int64_t axis) {
  Shape shape;
  if (rows.empty()) {
    for (const onnx::DeclaredDim& d : declared.shape) shape.push_back(std::max<int64_t>(d.value, 0));
  } else {
    shape = static_cast<const Tensor&>(rows[0]).shape();
  }
  const int64_t rank = static_cast<int64_t>(shape.size()) + 1;
  if (axis < -rank || axis >= rank)
    throw Error(ErrorCode::invalid_model, str("the axis ", axis, " of a scan output is out of range for rank ", rank));
  const size_t at = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  const int64_t outer = product(shape, 0, at), inner = product(shape, at, shape.size());
  const int64_t count = static_cast<int64_t>(rows.size());
  shape.insert(shape.begin() + static_cast<ptrdiff_t>(at), count);
  if (rows.empty()) return Tensor(declared.dtype == DType::invalid ? DType::f32 : declared.dtype, shape);
  const DType dtype = rows[0].tensor.dtype();
  Tensor out(is_packed(dtype) ? unpacked_dtype(dtype) : dtype, shape);
  for (int64_t i = 0; i < count; ++i) {
    const Tensor& row = rows[static_cast<size_t>(i)];
    if (row.dtype() != dtype || row.shape() != rows[0].tensor.shape())
      throw Error(ErrorCode::invalid_input,
                  str("the rows of a scan output differ: ", describe(rows[0].tensor), " and ", describe(row)));
    const Tensor plain = unpack(row);
    for (int64_t o = 0; o < outer; ++o) copy_elements(plain, o * inner, out, (o * count + i) * inner, inner);
  }
  return is_packed(dtype) ? pack(out, dtype) : out;
}

Tensor first_rows(const Tensor& x, int64_t count) {
  return unpacked(x, [&](const Tensor& from) {
    Shape shape = from.shape();
    shape[0] = count;
    Tensor out(from.dtype(), shape);
    copy_elements(from, 0, out, 0, out.size());
    return out;
  });
}

Tensor padded_rows(const Tensor& x, int64_t count) {
  if (x.dim(0) == count) return x;
  return unpacked(x, [&](const Tensor& from) {
    Shape shape = from.shape();
    shape[0] = count;
    Tensor out = Tensor::zeros(from.dtype(), shape);
    copy_elements(from, 0, out, 0, from.size());
    return out;
  });
}

}  // namespace transmuter::runtime
