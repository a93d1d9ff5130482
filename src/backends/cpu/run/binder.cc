#include "backends/cpu/run/binder.h"

#include <algorithm>

#include "backends/cpu/run/arena_plan.h"
#include "backends/cpu/steps/copy.h"
#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter::cpu {

namespace {

bool same(const View& a, const View& b) {
  return a.buffer == b.buffer && a.dtype == b.dtype && a.offset == b.offset && a.shape.size() == b.shape.size() &&
         std::equal(a.shape.begin(), a.shape.end(), b.shape.begin()) &&
         std::equal(a.strides.begin(), a.strides.end(), b.strides.begin());
}

}  // namespace

Binder::Binder(const ir::Program& program, const ValueTypes& types, const SymbolBits& bits, Bindings& bindings,
               int threads, bool describe)
    : program_(program),
      types_(types),
      bits_(bits),
      bindings_(bindings),
      threads_(threads),
      describe_(describe),
      placing_(static_cast<size_t>(program.value_count()), -1) {}

std::vector<int64_t> Binder::values(const Dims& dims) {
  for (const Dim d : dims) symbols_ |= bits_.of(d.expr());
  return bindings_.evaluate(dims);
}

Extents Binder::shape(ir::Value v) {
  Extents extents;
  for (const Dim& d : types_.shape(v)) extents.push_back(value(d));
  return extents;
}

const View* Binder::placed(ir::Value v) const {
  const int32_t at = placing_[static_cast<size_t>(v.id)];
  if (at == -1) return nullptr;
  return at >= 0 ? &record_->placings[static_cast<size_t>(at)].view
                 : &before_->placings[static_cast<size_t>(-2 - at)].view;
}

void Binder::place(ir::Value v, const View& view, bool grown) {
  if (replacing_) {
    if (next_.placings == end_.placings) throw OtherPlan{};
    const BindRecord::Placing& was = before_->placings[static_cast<size_t>(next_.placings++)];
    if (was.value != v.id || was.grown != grown || was.view.buffer != view.buffer) throw OtherPlan{};
    moved_[static_cast<size_t>(v.id)] = !same(was.view, view);
  }
  placing_[static_cast<size_t>(v.id)] = static_cast<int32_t>(record_->placings.size());
  int32_t& head = record_->lying_in[static_cast<size_t>(view.buffer)];
  record_->lying.push_back({v.id, step_, head});
  head = static_cast<int32_t>(record_->lying.size()) - 1;
  record_->placings.push_back({v.id, grown, view});
  if (grown) grown_.emplace_back(v, view);
}

int32_t Binder::new_buffer(BoundBuffer buffer) {
  if (replacing_) {
    if (next_.buffers == end_.buffers) throw OtherPlan{};
    BoundBuffer& slot = plan_.buffers[static_cast<size_t>(next_.buffers)];
    if (slot.kind != buffer.kind) throw OtherPlan{};
    buffer.first = slot.first;  // steps that are kept touch it where they did
    buffer.last = slot.last;
    slot = buffer;
    return next_.buffers++;
  }
  record_->lying_in.push_back(-1);
  plan_.buffers.push_back(buffer);
  return static_cast<int32_t>(plan_.buffers.size()) - 1;
}

View Binder::view(ir::Value v) {
  const View* view = placed(v);
  if (!view) throw Error(ErrorCode::internal, str("value %", v.id, " has no memory yet"));
  record_->reads.push_back(v.id);
  touch(view->buffer);
  return *view;
}

const Binder::Home& Binder::home_of(int32_t value) const {
  return *std::find_if(homes_.begin(), homes_.end(), [&](const Home& h) { return h.value.id == value; });
}

View Binder::home(ir::Value v) {
  const View* own = placed(v);
  if (own && plan_.buffers[static_cast<size_t>(own->buffer)].kind == BoundBuffer::Kind::input) return view(v);
  const View& home = home_of(v.id).view;
  record_->reads.push_back(-1 - v.id);
  touch(home.buffer);
  return home;
}

View Binder::dense(ir::Value v) {
  const View* own = placed(v);
  if (own && !own->is_dense()) {
    record_->reads.push_back(v.id);
    alias(v, dense_copy(View(*own)));  // later readers take the copy, too
  }
  return view(v);
}

View Binder::channels_last(ir::Value v) {
  const View* own = placed(v);
  if (own) {
    const AxisOrder order = channels_last_order(own->rank());
    if (!in_order(*own, order).is_dense()) {
      record_->reads.push_back(v.id);
      alias(v, dense_copy(View(*own), order));
    }
  }
  return view(v);
}

View Binder::dense_copy(const View& from, const AxisOrder& order) {
  const std::vector<int32_t> pending = std::move(touched_);
  touched_.clear();
  const int64_t bytes = static_cast<int64_t>(byte_size(from.dtype, from.size()));
  if (plan_.buffers[static_cast<size_t>(from.buffer)].growing) {
    ++plan_.cache_copies;
    plan_.cache_copy_bytes += bytes;
  }
  const int32_t buffer = new_buffer({.bytes = bytes});
  View to = dense_view(buffer, from.dtype, from.shape);
  set_strides(to, order);
  touch(from.buffer);
  touch(buffer);
  launch_copy(*this, from, to);
  touched_ = pending;
  touch(buffer);
  return to;
}

View Binder::allocate(ir::Value v, const AxisOrder& order) {
  View view;
  view.dtype = dtype(v);
  view.shape = shape(v);
  set_strides(view, order);
  view.buffer = new_buffer({.bytes = static_cast<int64_t>(byte_size(view.dtype, view.size()))});
  touch(view.buffer);
  alias(v, view);
  return view;
}

View Binder::allocate_over(ir::Value v, const View& operand, const AxisOrder& order) {
  const DType type = dtype(v);
  const BoundBuffer& buffer = plan_.buffers[static_cast<size_t>(operand.buffer)];
  const Extents want = shape(v);
  bool reusable = buffer.kind == BoundBuffer::Kind::arena && bit_width(operand.dtype) == bit_width(type) &&
                  operand.offset == 0 && in_order(operand, order).is_dense() && product(want) == operand.size() &&
                  buffer.bytes == static_cast<int64_t>(byte_size(operand.dtype, operand.size()));
  // Nothing else that is still to be read may lie in the same memory.
  const auto none_is_read_later = [&](const BindRecord& record, int32_t last_step) {
    for (int32_t i = record.lying_in[static_cast<size_t>(operand.buffer)]; i >= 0;) {
      const BindRecord::Lying& other = record.lying[static_cast<size_t>(i)];
      if (other.step <= last_step && (*last_op_)[static_cast<size_t>(other.value)] > step_) return false;
      i = other.next;
    }
    return true;
  };
  reusable = reusable && none_is_read_later(*record_, step_) && (!before_ || none_is_read_later(*before_, step_ - 1));
  if (!reusable) return allocate(v, order);
  View view = dense_view(operand.buffer, type, want);
  set_strides(view, order);
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

View Binder::constant(const Tensor& tensor) {
  return dense_view(constant(tensor.bytes(), static_cast<int64_t>(tensor.nbytes())), tensor.dtype(),
                    extents_of(tensor.shape()));
}

const Tensor& Binder::keep(Tensor tensor) {
  plan_.kept.push_back(std::move(tensor));
  return plan_.kept.back();
}

void Binder::add_launch(BoundLaunch launch) {
  if (replacing_ && next_.launches == end_.launches) throw OtherPlan{};
  const int32_t index = replacing_ ? next_.launches++ : static_cast<int32_t>(plan_.launches.size());
  launch.location = location_;
  for (int32_t b : touched_) {
    BoundBuffer& buffer = plan_.buffers[static_cast<size_t>(b)];
    buffer.first = std::min(buffer.first, index);
    buffer.last = std::max(buffer.last, index);
  }
  if (describe_) {
    std::string& shapes = plan_.shapes.emplace_back();
    for (int32_t id = 0; id < program_.value_count() && shapes.size() < 120; ++id) {
      const View* view = placed({id});
      if (!view || std::find(touched_.begin(), touched_.end(), view->buffer) == touched_.end()) continue;
      shapes += (shapes.empty() ? "" : " ") + str(shape_of(view->shape));
    }
  }
  if (replacing_)
    plan_.launches[static_cast<size_t>(index)] = launch;
  else
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
  homes_.push_back({v, layout, before_ && moved_[static_cast<size_t>(v.id)]});
}

void Binder::bind_constant(ir::Value v, const Tensor& tensor) { alias(v, constant(tensor)); }

BindRecord::Mark Binder::mark() const {
  return {static_cast<int32_t>(plan_.buffers.size()),
          static_cast<int32_t>(plan_.launches.size()),
          static_cast<int32_t>(record_->placings.size()),
          static_cast<int32_t>(record_->reads.size()),
          plan_.cache_copies,
          plan_.cache_copy_bytes,
          0};
}

void Binder::expect(size_t given, size_t steps, std::unique_ptr<BindRecord> spare) {
  if (spare) {
    record_ = std::move(spare);
    record_->clear();
  }
  const size_t values = given + 3 * steps / 2;
  plan_.buffers.reserve(given + 2 * steps);  // a result and what its kernel works in
  plan_.launches.reserve(5 * steps / 4);
  record_->marks.reserve(steps + 1);
  record_->placings.reserve(values);
  record_->lying.reserve(values);
  record_->lying_in.reserve(plan_.buffers.capacity());
  record_->reads.reserve(4 * steps);
}

void Binder::start_from(std::shared_ptr<const BoundPlan> plan, uint64_t changed) {
  before_ = plan->record.get();
  changed_ = changed;
  const BindRecord::Mark& all = before_->marks.back();
  plan_.buffers.assign(plan->buffers.begin(), plan->buffers.begin() + all.buffers);
  for (BoundBuffer& buffer : plan_.buffers) {
    buffer.last = std::min(buffer.last, all.launches - 1);  // what copied the results is gone
    if (buffer.last < buffer.first) buffer.first = INT32_MAX, buffer.last = -1;
    if (buffer.kind != BoundBuffer::Kind::output) continue;
    buffer.kind = BoundBuffer::Kind::arena;
    buffer.index = -1;
  }
  plan_.launches.assign(plan->launches.begin(), plan->launches.begin() + all.launches);
  record_->lying_in.assign(plan_.buffers.size(), -1);
  moved_.resize(static_cast<size_t>(program_.value_count()));
  plan_.from = std::move(plan);
  next_ = {};  // the inputs come first
  end_ = before_->marks.front();
  replacing_ = true;
}

void Binder::begin_steps() {
  touched_.clear();
  if (before_) {
    for (size_t id = 0; id < placing_.size(); ++id) {
      const int32_t at = before_->at_start[id];
      if (placing_[id] == -1 && at != -1) placing_[id] = -2 - at;
    }
    replacing_ = false;
    return;
  }
  record_->at_start = placing_;
}

bool Binder::keeps_step(size_t step) {
  const BindRecord::Mark &begin = before_->marks[step], &end = before_->marks[step + 1];
  bool same = (begin.symbols & changed_) == 0;
  for (int32_t i = begin.reads; same && i < end.reads; ++i) {
    const int32_t value = before_->reads[static_cast<size_t>(i)];
    same = !(value >= 0 ? moved_[static_cast<size_t>(value)] : home_of(-1 - value).moved);
  }
  if (!same) return false;
  for (int32_t i = begin.placings; i < end.placings; ++i) {
    const BindRecord::Placing& placing = before_->placings[static_cast<size_t>(i)];
    placing_[static_cast<size_t>(placing.value)] = -2 - i;
    moved_[static_cast<size_t>(placing.value)] = false;
    if (placing.grown) grown_.emplace_back(ir::Value{placing.value}, placing.view);
  }
  plan_.cache_copies += end.cache_copies - begin.cache_copies;
  plan_.cache_copy_bytes += end.cache_copy_bytes - begin.cache_copy_bytes;
  return true;
}

void Binder::begin_step(size_t step, int32_t location) {
  step_ = static_cast<int32_t>(step);
  location_ = location;
  symbols_ = 0;
  touched_.clear();
  if (before_) {
    next_ = before_->marks[step];
    end_ = before_->marks[step + 1];
    replacing_ = true;
  } else {
    record_->marks.push_back(mark());
  }
}

void Binder::end_step() {
  if (!before_) {
    record_->marks.back().symbols = symbols_;
    return;
  }
  if (next_.buffers != end_.buffers || next_.launches != end_.launches || next_.placings != end_.placings)
    throw OtherPlan{};
  replacing_ = false;
}

BoundPlan Binder::finish(const std::vector<ir::Value>& outputs) {
  touched_.clear();
  location_ = -1;
  if (!before_) record_->marks.push_back(mark());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const View* result = placed(outputs[i]);
    if (!result) throw Error(ErrorCode::internal, "a result was never computed");
    View v = *result;
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
  if (!before_) plan_.record = std::move(record_);
  return std::move(plan_);
}

}  // namespace transmuter::cpu
