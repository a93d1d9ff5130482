#include "tensor/pieces.h"

#include <algorithm>
#include <cstring>

#include "base/strings.h"
#include "tensor/packed.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

int64_t product(const Shape& shape, size_t begin, size_t end) {
  int64_t count = 1;
  for (size_t i = begin; i < end; ++i) count *= shape[i];
  return count;
}

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

Tensor packed_again(const Tensor& plain, DType dtype) { return is_packed(dtype) ? pack(plain, dtype) : plain; }

}  // namespace

Tensor piece_of(const Tensor& x, int64_t axis, int64_t start, int64_t count) {
  const Tensor from = unpack(x);
  Shape shape = from.shape();
  const size_t at = static_cast<size_t>(axis);
  const int64_t outer = product(shape, 0, at), extent = shape[at], inner = product(shape, at + 1, shape.size());
  shape[at] = count;
  Tensor out(from.dtype(), shape);
  for (int64_t o = 0; o < outer; ++o)
    copy_elements(from, (o * extent + start) * inner, out, o * count * inner, count * inner);
  return packed_again(out, x.dtype());
}

Tensor row_of(const Tensor& x, int64_t axis, int64_t i) {
  Shape shape = x.shape();
  shape.erase(shape.begin() + static_cast<ptrdiff_t>(axis));
  return piece_of(x, axis, i, 1).reshaped(std::move(shape));
}

Tensor joined(const std::vector<Tensor>& pieces, int64_t axis) {
  const Tensor& first = pieces.at(0);
  Shape shape = first.shape();
  const size_t at = static_cast<size_t>(axis);
  shape[at] = 0;
  for (const Tensor& piece : pieces) {
    Shape other = piece.shape();
    if (piece.dtype() == first.dtype() && piece.rank() == first.rank()) {
      shape[at] += other[at];
      other[at] = shape[at];
    }
    if (piece.dtype() != first.dtype() || other != shape)
      throw Error(ErrorCode::invalid_input,
                  str(describe(first), " and ", describe(piece), " cannot be joined along axis ", axis));
  }
  const int64_t outer = product(shape, 0, at), inner = product(shape, at + 1, shape.size());
  Tensor out(is_packed(first.dtype()) ? unpacked_dtype(first.dtype()) : first.dtype(), shape);
  int64_t start = 0;
  for (const Tensor& piece : pieces) {
    const Tensor from = unpack(piece);
    const int64_t count = piece.shape()[at];
    for (int64_t o = 0; o < outer; ++o)
      copy_elements(from, o * count * inner, out, (o * shape[at] + start) * inner, count * inner);
    start += count;
  }
  return packed_again(out, first.dtype());
}

Tensor stacked(std::vector<Tensor> rows, int64_t axis) {
  for (Tensor& row : rows) {
    Shape shape = row.shape();
    shape.insert(shape.begin() + static_cast<ptrdiff_t>(axis), 1);
    row = row.reshaped(std::move(shape));
  }
  return joined(rows, axis);
}

}  // namespace transmuter
