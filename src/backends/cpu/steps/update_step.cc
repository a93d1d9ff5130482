// A cache that is written in place at a place that the run knows: past_present_share_buffer, TensorScatter.
#include <algorithm>
#include <cstring>

#include "backends/cpu/plan/planner.h"
#include "backends/cpu/steps/copy.h"
#include "backends/cpu/steps/takes.h"
#include "ir/composites/write_rows.h"
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

// Each sequence's rows at its own place. A cache's mark is that of its longest sequence; rows of the others up to there
// are cleared where the program wants zeros.
class UpdateRowsStep : public Step {
 public:
  explicit UpdateRowsStep(const Append& append) : append_(append), write_(append.op->as<ir::WriteRowsAttributes>()) {
    reads = append.op->operands;
    writes = append.op->results;
  }

  void bind(Binder& bind) const override {
    for (const size_t i : {2, 3}) bind.dense(reads[i]);
    const View past = bind.view(reads[0]), now = bind.view(reads[1]);
    const View starts = bind.view(reads[2]), ends = bind.view(reads[3]);
    bind.grow(append_.present, past);
    if (past.size() == 0) return bind.untouch();
    bind.launch("update_rows", 0,
                [write = &write_, past, now, starts = Place(starts), ends = Place(ends)](const RunContext& run) {
                  GrowingStorage& storage = *run.growing[past.buffer];
                  const int64_t before = storage.used;
                  const Rows rows{*write, past, now, before, run};
                  const int64_t *from = run.at<int64_t>(starts), *to = run.at<int64_t>(ends);
                  int64_t used = write->keeps_rest ? before : 0;
                  for (int64_t b = 0; b < past.shape[0]; ++b) used = std::max(used, rows.put(b, from[b], to[b]));
                  storage.used = used;
                });
  }

 private:
  struct Rows {
    const ir::WriteRowsAttributes& write;
    const View &past, &now;
    int64_t used;
    const RunContext& run;

    // `count` rows of one sequence.
    View part(const View& of, int64_t b, int64_t first, int64_t count) const {
      const size_t axis = static_cast<size_t>(write.axis);
      View view = of;
      view.shape[0] = 1;
      view.shape[axis] = count;
      view.offset += (b * of.strides[0] + first * of.strides[axis]) * (bit_width(of.dtype) / 8);
      return view;
    }
    // `repeat`: the row `from` alone, again and again.
    void copy(int64_t b, int64_t from, int64_t to, int64_t count, bool repeat = false) const {
      if (count <= 0) return;
      View source = part(now, b, from, count);
      if (repeat) source.strides[static_cast<size_t>(write.axis)] = 0;
      copy_elements(source, run.bases[now.buffer], part(past, b, to, count), run.bases[past.buffer], &run.pool);
    }
    // Returns where this sequence's zeros begin, or what follows its rows.
    int64_t put(int64_t b, int64_t start, int64_t end) const {
      const int64_t capacity = past.shape[static_cast<size_t>(write.axis)];
      const int64_t given = now.shape[static_cast<size_t>(write.axis)];
      if (write.circular) {
        const int64_t first = ((start % capacity) + capacity) % capacity,
                      count = std::clamp<int64_t>(end - start, 0, given);
        const int64_t before_end = std::min(count, capacity - first);
        copy(b, 0, first, before_end);
        copy(b, before_end, 0, count - before_end);
        return capacity;
      }
      const int64_t first = std::clamp<int64_t>(start, 0, capacity), last = std::clamp<int64_t>(end, first, capacity);
      const int64_t there = std::clamp<int64_t>(start + given - first, 0, last - first);
      copy(b, first - start, first, there);
      if (given > 0) copy(b, given - 1, first + there, last - first - there, true);
      if (write.keeps_rest) return last;
      if (last < used) {
        const View rest = part(past, b, last, used - last);
        clear(rest, 0, run.bases[past.buffer] + rest.offset);
      }
      return last;
    }
  };

  Append append_;
  const ir::WriteRowsAttributes write_;
};

}  // namespace

bool write_rows_takes(const ir::Program& program, const ir::Op& op) {
  if (op.primitive != &ir::composite::write_rows) return false;
  const std::vector<Append> appends = find_appends(program);
  return std::any_of(appends.begin(), appends.end(), [&](const Append& a) { return a.op == &op; });
}

std::unique_ptr<Step> plan_update(Planner& planner, const ir::Op& op) {
  if (op.primitive == &ir::composite::write_rows) {
    if (const Append* append = planner.append(op)) return std::make_unique<UpdateRowsStep>(*append);
    return nullptr;
  }
  if (op.primitive != &ir::prim::dynamic_update_slice) return nullptr;
  if (const Append* append = planner.append(op)) return std::make_unique<UpdateStep>(*append);
  planner.refuse(op, "update", "not an input that comes back as a result");
  return nullptr;
}

}  // namespace transmuter::cpu
