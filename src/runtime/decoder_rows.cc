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
    for (const int64_t row : rows) {
      std::memcpy(out, in + static_cast<size_t>(o * extent + row) * bytes, bytes);
      out += bytes;
    }
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
