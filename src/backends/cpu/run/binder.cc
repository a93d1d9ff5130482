#include "backends/cpu/run/binder.h"

#include <algorithm>
#include <map>

#include "backends/cpu/steps/copy.h"
#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter::cpu {

namespace {

constexpr int64_t kAlignment = 64;
int64_t round_up(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

Binder::Binder(const ir::Program& program, Bindings& bindings, int threads, bool verbose)
    : program_(program),
      bindings_(bindings),
      threads_(threads),
      verbose_(verbose),
      views_(static_cast<size_t>(program.value_count())) {}

Extents Binder::shape(ir::Value v) {
  Extents extents;
  for (const Dim& d : program_.type(v).shape) extents.push_back(bindings_.evaluate(d));
  return extents;
}

void Binder::alias(ir::Value v, const View& view) {
  views_[static_cast<size_t>(v.id)] = view;
  values_in_[static_cast<size_t>(view.buffer)].push_back(v.id);
}

int32_t Binder::new_buffer(BoundBuffer buffer) {
  values_in_.emplace_back();
  plan_.buffers.push_back(buffer);
  return static_cast<int32_t>(plan_.buffers.size()) - 1;
}

void Binder::touch(int32_t buffer) { touched_.push_back(buffer); }

View Binder::view(ir::Value v) {
  const View& view = views_[static_cast<size_t>(v.id)];
  if (view.buffer < 0) throw Error(ErrorCode::internal, str("value %", v.id, " has no memory yet"));
  touch(view.buffer);
  return view;
}

View Binder::dense(ir::Value v) {
  View& own = views_[static_cast<size_t>(v.id)];
  if (!own.is_dense()) {
    alias(v, dense_copy(own));  // later readers take the copy, too
  }
  return view(v);
}

View Binder::dense_copy(const View& from) {
  const std::vector<int32_t> pending = std::move(touched_);
  touched_.clear();
  const int32_t buffer = new_buffer({.bytes = static_cast<int64_t>(byte_size(from.dtype, from.size()))});
  View to = dense_view(buffer, from.dtype, from.shape);
  touch(from.buffer);
  touch(buffer);
  launch_copy(*this, from, to);
  touched_ = pending;
  touch(buffer);
  return to;
}

View Binder::allocate(ir::Value v, const SmallVector<int64_t, 6>& order) {
  const ir::Type& type = program_.type(v);
  View view;
  view.dtype = type.dtype;
  view.shape = shape(v);
  set_strides(view, order);
  view.buffer = new_buffer({.bytes = static_cast<int64_t>(byte_size(type.dtype, view.size()))});
  touch(view.buffer);
  alias(v, view);
  return view;
}

View Binder::allocate_over(ir::Value v, const View& operand) {
  const ir::Type& type = program_.type(v);
  const BoundBuffer& buffer = plan_.buffers[static_cast<size_t>(operand.buffer)];
  const Extents want = shape(v);
  bool reusable = buffer.kind == BoundBuffer::Kind::arena && bit_width(operand.dtype) == bit_width(type.dtype) &&
                  operand.offset == 0 && operand.is_dense() && product(want) == operand.size() &&
                  buffer.bytes == static_cast<int64_t>(byte_size(operand.dtype, operand.size()));
  // Nothing else that is still to be read may lie in the same memory.
  for (int32_t other : values_in_[static_cast<size_t>(operand.buffer)])
    reusable = reusable && last_op_[static_cast<size_t>(other)] <= op_;
  if (!reusable) return allocate(v);
  View view = dense_view(operand.buffer, type.dtype, want);
  touch(view.buffer);
  alias(v, view);
  return view;
}

int32_t Binder::scratch(int64_t bytes) {
  const int32_t buffer = new_buffer({.bytes = bytes});
  touch(buffer);
  return buffer;
}

int32_t Binder::constant(const std::byte* bytes, int64_t count) {
  BoundBuffer buffer;
  buffer.kind = BoundBuffer::Kind::constant;
  buffer.bytes = count;
  buffer.constant = bytes;
  return new_buffer(buffer);
}

const Tensor& Binder::keep(Tensor tensor) {
  plan_.kept.push_back(std::move(tensor));
  return plan_.kept.back();
}

void Binder::launch(const char* kernel, double flops, Launch run) {
  const int32_t index = static_cast<int32_t>(plan_.launches.size());
  BoundLaunch launch{std::move(run), kernel, {}, flops, location_};
  for (int32_t b : touched_) {
    BoundBuffer& buffer = plan_.buffers[static_cast<size_t>(b)];
    buffer.first = std::min(buffer.first, index);
    buffer.last = std::max(buffer.last, index);
  }
  if (verbose_) {
    for (const View& view : views_) {
      if (std::find(touched_.begin(), touched_.end(), view.buffer) == touched_.end() || view.buffer < 0) continue;
      const BoundBuffer& buffer = plan_.buffers[static_cast<size_t>(view.buffer)];
      if (buffer.last != index) continue;
      if (launch.shapes.size() < 120) launch.shapes += (launch.shapes.empty() ? "" : " ") + str(shape_of(view.shape));
    }
  }
  plan_.launches.push_back(std::move(launch));
  touched_.clear();
}

void Binder::bind_input(ir::Value v, int32_t index, DType dtype, const Extents& shape) {
  BoundBuffer buffer;
  buffer.kind = BoundBuffer::Kind::input;
  buffer.index = index;
  buffer.bytes = static_cast<int64_t>(byte_size(dtype, product(shape)));
  alias(v, dense_view(new_buffer(buffer), dtype, shape));
}

void Binder::bind_constant(ir::Value v, const Tensor& tensor) {
  alias(v, dense_view(constant(tensor.bytes(), static_cast<int64_t>(tensor.nbytes())), tensor.dtype(),
                      extents_of(tensor.shape())));
}

BoundPlan Binder::finish(const std::vector<ir::Value>& outputs) {
  touched_.clear();
  for (size_t i = 0; i < outputs.size(); ++i) {
    View v = views_[static_cast<size_t>(outputs[i].id)];
    if (v.buffer < 0) throw Error(ErrorCode::internal, "a result was never computed");
    BoundBuffer* buffer = &plan_.buffers[static_cast<size_t>(v.buffer)];
    const bool whole = buffer->kind == BoundBuffer::Kind::arena && v.offset == 0 && v.is_dense() &&
                       buffer->bytes == static_cast<int64_t>(byte_size(v.dtype, v.size()));
    if (!whole) {
      v = dense_copy(v);
      buffer = &plan_.buffers[static_cast<size_t>(v.buffer)];
    }
    buffer->kind = BoundBuffer::Kind::output;
    buffer->index = static_cast<int32_t>(i);
    plan_.outputs.push_back({v.buffer, v.dtype, shape_of(v.shape)});
  }
  // Arena: buffers by first use; freed blocks are taken again, best fit first.
  std::vector<int32_t> order;
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    if (plan_.buffers[i].kind == BoundBuffer::Kind::arena && plan_.buffers[i].last >= 0)
      order.push_back(static_cast<int32_t>(i));
  }
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return plan_.buffers[static_cast<size_t>(a)].first < plan_.buffers[static_cast<size_t>(b)].first;
  });
  std::multimap<int64_t, int64_t> free_by_size;  // size -> offset
  std::map<int64_t, int64_t> free_by_offset;     // offset -> size
  std::multimap<int32_t, int32_t> live;          // last launch -> buffer
  int64_t top = 0;
  auto erase_sized = [&](int64_t offset, int64_t size) {
    auto [begin, end] = free_by_size.equal_range(size);
    for (auto it = begin; it != end; ++it) {
      if (it->second == offset) {
        free_by_size.erase(it);
        break;
      }
    }
  };
  auto give_back = [&](int64_t offset, int64_t size) {
    auto next = free_by_offset.lower_bound(offset);
    if (next != free_by_offset.end() && next->first == offset + size) {
      size += next->second;
      erase_sized(next->first, next->second);
      next = free_by_offset.erase(next);
    }
    if (next != free_by_offset.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == offset) {
        erase_sized(before->first, before->second);
        offset = before->first;
        size += before->second;
        free_by_offset.erase(before);
      }
    }
    free_by_offset[offset] = size;
    free_by_size.emplace(size, offset);
  };
  for (int32_t index : order) {
    BoundBuffer& buffer = plan_.buffers[static_cast<size_t>(index)];
    while (!live.empty() && live.begin()->first < buffer.first) {
      const BoundBuffer& dead = plan_.buffers[static_cast<size_t>(live.begin()->second)];
      give_back(dead.offset, round_up(std::max<int64_t>(dead.bytes, 1)));
      live.erase(live.begin());
    }
    const int64_t size = round_up(std::max<int64_t>(buffer.bytes, 1));
    if (auto fit = free_by_size.lower_bound(size); fit != free_by_size.end()) {
      const auto [block, offset] = *fit;
      free_by_size.erase(fit);
      free_by_offset.erase(offset);
      buffer.offset = offset;
      if (block > size) give_back(offset + size, block - size);
    } else if (!free_by_offset.empty() && free_by_offset.rbegin()->first + free_by_offset.rbegin()->second == top) {
      const auto [offset, block] = *free_by_offset.rbegin();  // the block at the end grows
      erase_sized(offset, block);
      free_by_offset.erase(offset);
      buffer.offset = offset;
      top = offset + size;
    } else {
      buffer.offset = top;
      top += size;
    }
    live.emplace(buffer.last, index);
  }
  plan_.arena_bytes = top;
  return std::move(plan_);
}

}  // namespace transmuter::cpu
