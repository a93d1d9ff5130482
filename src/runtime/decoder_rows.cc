#include "runtime/decoder_rows.h"

#include <cstring>

#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter::runtime {

Tensor rows_of(const Tensor& from, int64_t axis, const std::vector<int64_t>& rows) {
  if (axis < 0 || axis >= from.rank()) return from;
  const int64_t extent = from.dim(axis);
  bool same = static_cast<int64_t>(rows.size()) == extent;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= extent)
      throw Error(ErrorCode::invalid_input, str("there is no row ", rows[i], " among ", extent));
    same = same && rows[i] == static_cast<int64_t>(i);
  }
  if (same) return from;
  if (is_packed(from.dtype())) throw Error(ErrorCode::unsupported, "caches of packed elements cannot be reordered");
  Shape shape = from.shape();
  shape[static_cast<size_t>(axis)] = static_cast<int64_t>(rows.size());
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < axis; ++i) outer *= from.dim(i);
  for (int64_t i = axis + 1; i < from.rank(); ++i) inner *= from.dim(i);
  Tensor to(from.dtype(), std::move(shape));
  const size_t bytes = byte_size(from.dtype(), inner);
  const std::byte* in = from.bytes();
  std::byte* out = to.mutable_bytes();
  for (int64_t o = 0; o < outer && bytes > 0; ++o) {
    for (size_t i = 0; i < rows.size();) {
      // Those that follow each other at once.
      size_t count = 1;
      while (i + count < rows.size() && rows[i + count] == rows[i] + static_cast<int64_t>(count)) ++count;
      std::memcpy(out, in + static_cast<size_t>(o * extent + rows[i]) * bytes, count * bytes);
      out += count * bytes;
      i += count;
    }
  }
  return to;
}

namespace {

// Zeros before what there is on `axis`, the first `skip` of which are left out.
Tensor moved_back(const Tensor& from, int64_t axis, int64_t skip, int64_t zeros) {
  if (skip == 0 && zeros == 0) return from;
  Shape shape = from.shape();
  const int64_t extent = shape[static_cast<size_t>(axis)], kept = extent - skip;
  shape[static_cast<size_t>(axis)] = zeros + kept;
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < axis; ++i) outer *= from.dim(i);
  for (int64_t i = axis + 1; i < from.rank(); ++i) inner *= from.dim(i);
  Tensor to = Tensor::zeros(from.dtype(), std::move(shape));
  const size_t bytes = byte_size(from.dtype(), inner);
  const std::byte* in = from.bytes();
  std::byte* out = to.mutable_bytes();
  for (int64_t o = 0; o < outer && bytes > 0; ++o)
    std::memcpy(out + static_cast<size_t>(o * (zeros + kept) + zeros) * bytes,
                in + static_cast<size_t>(o * extent + skip) * bytes, static_cast<size_t>(kept) * bytes);
  return to;
}

}  // namespace

Tensor joined(const Tensor& a, Shift a_shift, const Tensor& b, Shift b_shift, int64_t rows, int64_t axis) {
  if (is_packed(a.dtype())) throw Error(ErrorCode::unsupported, "caches of packed elements cannot be joined");
  const Tensor first = moved_back(a, axis, a_shift.skip, a_shift.zeros),
               second = moved_back(b, axis, b_shift.skip, b_shift.zeros);
  Shape shape = first.shape();
  shape[static_cast<size_t>(rows)] += second.dim(rows);
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < rows; ++i) outer *= first.dim(i);
  for (int64_t i = rows + 1; i < first.rank(); ++i) inner *= first.dim(i);
  Tensor to(first.dtype(), std::move(shape));
  std::byte* out = to.mutable_bytes();
  const size_t one = byte_size(a.dtype(), first.dim(rows) * inner),
               other = byte_size(a.dtype(), second.dim(rows) * inner);
  const std::byte *from_one = first.bytes(), *from_other = second.bytes();
  for (int64_t o = 0; o < outer; ++o) {
    std::memcpy(out, from_one + static_cast<size_t>(o) * one, one);
    std::memcpy(out + one, from_other + static_cast<size_t>(o) * other, other);
    out += one + other;
  }
  return to;
}

int64_t batch_axis(const ValueSpec& cache, const std::vector<ValueSpec>& inputs) {
  for (const char* name : {"input_ids", "decoder_input_ids", "inputs_embeds", "decoder_inputs_embeds", "tokens"}) {
    for (const ValueSpec& spec : inputs) {
      if (spec.name != name || spec.shape.empty() || spec.shape[0].symbol.empty()) continue;
      for (size_t axis = 0; axis < cache.shape.size(); ++axis) {
        if (cache.shape[axis].symbol == spec.shape[0].symbol) return static_cast<int64_t>(axis);
      }
    }
  }
  return cache.shape.size() == 5 && cache.shape[0].value == 2 ? 1 : 0;
}

}  // namespace transmuter::runtime
