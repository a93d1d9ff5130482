#include "backends/cpu/run/grown.h"

#include <algorithm>

#include "backends/cpu/steps/copy.h"
#include "base/memory.h"
#include "base/strings.h"
#include "telemetry/counters.h"
#include "transmuter/error.h"

namespace transmuter::cpu {
namespace {

// Room for as many rows again by half, so that the copies of a growing value cost a constant each row; a short one gets
// room for a few hundred steps at once. Pages of it that nobody writes cost nothing.
int64_t roomy(int64_t rows) { return (rows + std::max<int64_t>(rows / 2, 256) + 63) / 64 * 64; }

constexpr int64_t kMostlyRoom = 4;  // capacities are at least so many times the rows there are

struct CountedStorage : GrowingStorage {
  telemetry::HeldBytes held;
};

}  // namespace

DType dtype_of(const Buffer& buffer) { return buffer.growing ? buffer.growing->memory.dtype() : buffer.host.dtype(); }
const Shape& shape_of(const Buffer& buffer) { return buffer.growing ? buffer.shape : buffer.host.shape(); }
const std::byte* bytes_of(const Buffer& buffer) {
  return buffer.growing ? buffer.growing->memory.bytes() : buffer.host.bytes();
}

View layout_of(const Buffer& buffer) {
  const Tensor& memory = buffer.growing ? buffer.growing->memory : buffer.host;
  View view = dense_view(0, memory.dtype(), extents_of(memory.shape()));
  if (buffer.growing) view.shape = extents_of(buffer.shape);
  return view;
}

Tensor compacted(const Buffer& buffer, ThreadPool* pool) {
  if (!buffer.growing) return buffer.host;
  Tensor dense(dtype_of(buffer), buffer.shape);
  copy_elements(layout_of(buffer), bytes_of(buffer), dense_view(0, dense.dtype(), extents_of(buffer.shape)),
                dense.mutable_bytes(), pool);
  return dense;
}

Buffer with_room(const Buffer& buffer, int64_t axis, int64_t rows, bool grows, const BlockMemory& memory,
                 ThreadPool* pool, bool& copied) {
  const size_t a = static_cast<size_t>(axis);
  Buffer result = buffer;
  const Shape& shape = shape_of(buffer);
  const GrowingStorage* growing = buffer.growing.get();
  copied = !buffer.donated || !growing || growing->axis != axis || growing->memory.shape()[a] < rows ||
           (grows ? growing->used != shape[a] : growing->memory.shape() != shape);
  if (!copied) return result;
  Shape capacity = shape;
  capacity[a] = buffer.keeps_room && grows ? roomy(rows) : rows;
  const auto made = std::make_shared<CountedStorage>();
  result.growing = made;
  std::byte* to = nullptr;
  if (grows) {
    const size_t bytes = byte_size(dtype_of(buffer), element_count(capacity));
    if (!memory_is_there(bytes)) {
      throw Error(ErrorCode::out_of_memory, str("no memory for a cache of ", name(dtype_of(buffer)), " ", capacity));
    }
    // A large page is in memory as a whole, so what is mostly room lies on small ones.
    if (capacity[a] <= kMostlyRoom * shape[a]) {
      const std::shared_ptr<std::byte> owner = memory.take(bytes);
      to = owner.get();
      result.growing->memory = Tensor::view(dtype_of(buffer), capacity, to, owner);
    }
  }
  if (!to) {
    result.growing->memory = Tensor(dtype_of(buffer), capacity);
    to = result.growing->memory.mutable_bytes();
  }
  made->held = telemetry::HeldBytes(telemetry::Memory::cache, static_cast<int64_t>(made->memory.nbytes()));
  result.growing->axis = axis;
  result.growing->used = shape[a];
  result.shape = shape;
  result.host = {};
  copy_elements(layout_of(buffer), bytes_of(buffer), layout_of(result), to, pool);
  return result;
}

}  // namespace transmuter::cpu
