#include "backends/cpu/run/binder.h"

#include <algorithm>

#include "backends/cpu/run/arena_plan.h"
#include "backends/cpu/steps/copy.h"
#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter::cpu {

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
  int32_t& lying = lying_in_[static_cast<size_t>(view.buffer)];
  lying_.push_back({v.id, lying});
  lying = static_cast<int32_t>(lying_.size()) - 1;
}

int32_t Binder::new_buffer(BoundBuffer buffer) {
  lying_in_.push_back(-1);
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
  const int64_t bytes = static_cast<int64_t>(byte_size(from.dtype, from.size()));
  if (plan_.buffers[static_cast<size_t>(from.buffer)].growing) {
    ++plan_.cache_copies;
    plan_.cache_copy_bytes += bytes;
  }
  const int32_t buffer = new_buffer({.bytes = bytes});
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
  for (int32_t i = lying_in_[static_cast<size_t>(operand.buffer)]; reusable && i >= 0;) {
    const Lying& other = lying_[static_cast<size_t>(i)];
    reusable = (*last_op_)[static_cast<size_t>(other.value)] <= op_;
    i = other.next;
  }
  if (!reusable) return allocate(v);
  View view = dense_view(operand.buffer, type.dtype, want);
  touch(view.buffer);
  alias(v, view);
  return view;
}

void Binder::grow(ir::Value v, const View& view) {
  alias(v, view);
  grown_.emplace_back(v, view);
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

void Binder::add_launch(BoundLaunch launch) {
  const int32_t index = static_cast<int32_t>(plan_.launches.size());
  launch.location = location_;
  for (int32_t b : touched_) {
    BoundBuffer& buffer = plan_.buffers[static_cast<size_t>(b)];
    buffer.first = std::min(buffer.first, index);
    buffer.last = std::max(buffer.last, index);
  }
  if (verbose_) {
    std::string& shapes = plan_.shapes.emplace_back();
    for (const View& view : views_) {
      if (std::find(touched_.begin(), touched_.end(), view.buffer) == touched_.end() || view.buffer < 0) continue;
      const BoundBuffer& buffer = plan_.buffers[static_cast<size_t>(view.buffer)];
      if (buffer.last != index) continue;
      if (shapes.size() < 120) shapes += (shapes.empty() ? "" : " ") + str(shape_of(view.shape));
    }
  }
  plan_.launches.push_back(launch);
  touched_.clear();
}

void Binder::bind_input(ir::Value v, int32_t index, View layout, bool growing) {
  BoundBuffer buffer;
  buffer.kind = BoundBuffer::Kind::input;
  buffer.index = index;
  buffer.growing = growing;
  buffer.bytes = static_cast<int64_t>(byte_size(layout.dtype, layout.size()));
  layout.buffer = new_buffer(buffer);
  alias(v, layout);
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
    const auto grown = std::find_if(grown_.begin(), grown_.end(), [&](const auto& g) { return g.first == outputs[i]; });
    if (grown != grown_.end()) {
      plan_.outputs.push_back({grown->second.buffer, v.dtype, shape_of(grown->second.shape), true});
      continue;
    }
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
  plan_.arena_bytes = place_buffers(plan_.buffers, plan_.launches.size());
  return std::move(plan_);
}

}  // namespace transmuter::cpu
