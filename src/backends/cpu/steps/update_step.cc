// A cache that is written in place at a place that the run knows: past_present_share_buffer, TensorScatter.
#include <algorithm>
#include <cstring>

#include "backends/cpu/plan/planner.h"
#include "backends/cpu/steps/copy.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

void clear(const View& view, size_t axis, std::byte* at) {
  const int64_t width = bit_width(view.dtype) / 8;
  View inner = view;
  inner.shape.clear();
  inner.strides.clear();
  for (size_t i = axis; i < view.shape.size(); ++i) {
    inner.shape.push_back(view.shape[i]);
    inner.strides.push_back(view.strides[i]);
  }
  if (inner.is_dense()) {
    std::memset(at, 0, static_cast<size_t>(inner.size() * width));
    return;
  }
  for (int64_t i = 0; i < view.shape[axis]; ++i) clear(view, axis + 1, at + i * view.strides[axis] * width);
}

// present = past with `now` at `starts`, and zeros from there to the end where the program says so. In a cache that was
// written before, rows beyond its mark are zeros already.
class UpdateStep : public Step {
 public:
  explicit UpdateStep(const Append& append) : append_(append) {
    reads = append.op->operands;
    reads[1] = append.now();
    writes = append.op->results;
  }

  void bind(Binder& bind) const override {
    const View past = bind.view(append_.past), now = bind.view(append_.now());
    std::vector<View> starts;
    for (size_t i = 2; i < append_.op->operands.size(); ++i) starts.push_back(bind.view(append_.op->operands[i]));
    bind.grow(append_.present, past);
    const size_t axis = static_cast<size_t>(append_.axis);
    const int64_t zeros = bind.shape(append_.op->operands[1])[axis] - now.shape[axis];
    if (past.size() == 0) return bind.untouch();
    bind.launch("update", 0, [past, now, starts, axis, zeros](const RunContext& run) {
      View part = past;
      part.shape = now.shape;
      int64_t first = 0, offset = 0;
      for (size_t i = 0; i < starts.size(); ++i) {
        const int64_t given = starts[i].dtype == DType::i64 ? *run.at<int64_t>(starts[i]) : *run.at<int32_t>(starts[i]);
        const int64_t last = past.shape[i] - now.shape[i] - (i == axis ? zeros : 0);
        const int64_t start = std::clamp<int64_t>(given, 0, last);
        if (i == axis) first = start;
        offset += start * past.strides[i];
      }
      part.offset += offset * (bit_width(past.dtype) / 8);
      copy_elements(now, run.bases[now.buffer], part, run.bases[past.buffer], &run.pool);
      GrowingStorage& storage = *run.growing[past.buffer];
      const int64_t end = first + now.shape[axis];
      if (zeros == 0 || end + zeros < past.shape[axis]) {
        storage.used = std::max<int64_t>(storage.used, end + zeros);
        if (zeros == 0) return;
      }
      View rest = part;
      rest.shape[axis] = std::min<int64_t>(zeros, std::max<int64_t>(0, storage.used - end));
      if (rest.size() > 0) {
        clear(
            rest, 0,
            run.bases[past.buffer] + part.offset + now.shape[axis] * past.strides[axis] * (bit_width(past.dtype) / 8));
      }
      if (end + zeros == past.shape[axis]) storage.used = end;
    });
  }

 private:
  Append append_;
};

}  // namespace

std::unique_ptr<Step> plan_update(Planner& planner, const ir::Op& op) {
  if (op.primitive != &ir::prim::dynamic_update_slice) return nullptr;
  if (const Append* append = planner.append(op)) return std::make_unique<UpdateStep>(*append);
  planner.refuse(op, "update", "not an input that comes back as a result");
  return nullptr;
}

}  // namespace transmuter::cpu
