// The rnn composite (one direction of LSTM, GRU or RNN) in f32: the inputs of many time steps projected by one product,
// the recurrent weights packed once, the gates by kernels/recurrent.h. All of it is one launch; other dtypes are left
// to the plain evaluator.
#include <algorithm>
#include <utility>

#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/kernels/recurrent.h"
#include "backends/cpu/plan/planner.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "ir/composites/composites.h"
#include "ir/passes/attribute_record.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"

namespace transmuter::cpu {
namespace {

using Kind = ir::RnnAttributes::Kind;

constexpr int64_t kProjectedRows = 256;  // of one product: enough for its kernel, few enough for a cache
constexpr int64_t kCellGrain = 2048;     // elements of a state that are worth a thread

static_assert(static_cast<int>(CellActivation::softplus) == static_cast<int>(ir::RnnAttributes::Activation::softplus));

int64_t gates_of(Kind kind) { return kind == Kind::lstm ? 4 : kind == Kind::gru ? 3 : 1; }

// GRU multiplies the last gate's weights with what the reset gate leaves of the state, unless that comes after.
bool resets_before(const ir::RnnAttributes& rnn) { return rnn.kind == Kind::gru && !rnn.linear_before_reset; }

// Rows [first, first + n) of a weight [rows, k], transposed and packed: when planned, or else at the start of each run.
struct Matrix {
  int64_t k = 0, n = 0;
  int32_t packed = -1;  // buffer
  Place source;         // no buffer: packed when planned
  int64_t first = 0, row_stride = 0, column_stride = 0;

  void prepare(const RunContext& run) const {
    if (source.buffer < 0) return;
    pack_b(k, n, run.at(source) + first * row_stride, Storage::f32, column_stride, row_stride, Storage::f32,
           run.scratch(packed), run.pool);
  }
  // c[m, n] = a[m, k] times this; the pointers of a and c are the caller's.
  GemmArgs product(int64_t m) const {
    GemmArgs args;
    args.m = m;
    args.n = n;
    args.k = k;
    args.a_row = k;
    args.c_row = n;
    args.b_packed = true;
    return args;
  }
};

// A launch: sizes, where everything lies, and the run through time.
struct Recurrence {
  Kind kind;
  bool reverse, input_forget, resets_before;
  CellFunction f[3];
  float clip;
  int64_t steps, batch, hidden, width;  // width: of all gates
  int64_t chunk;                        // time steps that are projected at once
  int64_t x_strides[3];
  Place x, h0, c0, bias, lengths, peephole, y, h, c;
  Matrix w, r, r_last;  // r_last: of the last gate, with resets_before
  int32_t x_gates, h_gates, z = -1, reset_h = -1, biases = -1, counts = -1, scratch = -1;

  GemmArgs projection(int64_t count) const;
  void operator()(const RunContext& run) const;

 private:
  struct State {
    const float* h = nullptr;
    const float* c = nullptr;
  };
  void sum_biases(const RunContext& run) const;
  void read_lengths(const RunContext& run) const;
  void step(const RunContext& run, const float* gates, int64_t time, const State& before) const;
  void multiply(const RunContext& run, const Matrix& by, const float* a, const float* column_bias) const;
  template <class Fn>
  void for_rows(const RunContext& run, const CellStep& cell, const Fn& fn) const;
};

// The rows of the product are time steps and sequences, as one where the input's strides join.
GemmArgs Recurrence::projection(int64_t count) const {
  GemmArgs args = w.product(count * batch);
  args.a_row = batch == 1 ? x_strides[0] : x_strides[1];
  args.a_column = x_strides[2];
  if (batch == 1 || count == 1 || x_strides[0] == batch * x_strides[1]) return args;
  args.batch_rank = 1;
  if (count < batch) {
    args.m = batch;
    args.batch[0] = count;
    args.a_batch[0] = x_strides[0];
    args.c_batch[0] = batch * width;
  } else {
    args.m = count;
    args.a_row = x_strides[0];
    args.c_row = batch * width;
    args.batch[0] = batch;
    args.a_batch[0] = x_strides[1];
    args.c_batch[0] = width;
  }
  return args;
}

// Both biases go to the inputs' side; but what the reset gate scales stays with the recurrent product, whose bias
// follows and is 0 for the other gates.
void Recurrence::sum_biases(const RunContext& run) const {
  const float *of_w = run.at(bias), *of_r = of_w + width;
  float* const sums = run.scratch<float>(biases);
  const int64_t joined = kind == Kind::gru && !resets_before ? 2 * hidden : width;
  for (int64_t i = 0; i < width; ++i) {
    sums[i] = i < joined ? of_w[i] + of_r[i] : of_w[i];
    sums[width + i] = i < joined ? 0 : of_r[i];
  }
}

void Recurrence::read_lengths(const RunContext& run) const {
  int64_t* const out = run.scratch<int64_t>(counts);
  for (int64_t i = 0; i < batch; ++i) {
    out[i] = lengths.dtype == DType::i64 ? run.at<int64_t>(lengths)[i] : run.at<int32_t>(lengths)[i];
  }
}

void Recurrence::multiply(const RunContext& run, const Matrix& by, const float* a, const float* column_bias) const {
  GemmArgs args = by.product(batch);
  args.a = a;
  args.b = run.scratch(by.packed);
  args.c = run.scratch<float>(h_gates);
  args.epilogue.column_bias = column_bias;
  gemm(args, run.scratch(scratch), run.pool);
}

// fn(part, first row) on the parts of a step.
template <class Fn>
void Recurrence::for_rows(const RunContext& run, const CellStep& cell, const Fn& fn) const {
  run.pool.parallel_for(batch, std::max<int64_t>(1, kCellGrain / hidden), [&](int64_t begin, int64_t end) {
    CellStep part = cell;
    part.rows = end - begin;
    part.x_gates += begin * cell.x_pitch;
    part.h_gates += begin * cell.h_pitch;
    part.h_prev += begin * hidden;
    part.h += begin * hidden;
    part.y += begin * cell.y_pitch;
    if (part.lengths) part.lengths += begin;
    fn(part, begin);
  });
}

void Recurrence::step(const RunContext& run, const float* gates, int64_t time, const State& before) const {
  CellStep cell;
  cell.x_gates = gates;
  cell.x_pitch = width;
  cell.h_gates = run.scratch<float>(h_gates);
  cell.h_pitch = r.n;
  cell.h_prev = before.h;
  cell.h = run.at(h);
  cell.y = run.at(y) + time * batch * hidden;
  cell.y_pitch = cell.hidden = hidden;
  cell.clip = clip;
  cell.lengths = counts >= 0 ? run.scratch<int64_t>(counts) : nullptr;
  cell.step = time;
  const bool linear_gru = kind == Kind::gru && !resets_before;
  multiply(run, r, before.h, linear_gru && biases >= 0 ? run.scratch<float>(biases) + width : nullptr);
  if (kind == Kind::rnn) {
    for_rows(run, cell, [&](const CellStep& part, int64_t) { rnn_step(part, f[0]); });
  } else if (linear_gru) {
    for_rows(run, cell, [&](const CellStep& part, int64_t) { gru_step(part, f[0], f[1]); });
  } else if (kind == Kind::gru) {
    float *const update = run.scratch<float>(z), *const left = run.scratch<float>(reset_h);
    for_rows(run, cell, [&](const CellStep& part, int64_t first) {
      gru_reset(part, f[0], update + first * hidden, left + first * hidden);
    });
    multiply(run, r_last, left, nullptr);
    for_rows(run, cell, [&](const CellStep& part, int64_t first) {
      gru_output(part, f[1], update + first * hidden, run.scratch<float>(h_gates) + first * hidden);
    });
  } else {
    LstmCell lstm;
    lstm.peephole = peephole.buffer >= 0 ? run.at(peephole) : nullptr;
    lstm.input_forget = input_forget;
    lstm.f = f[0];
    lstm.g = f[1];
    lstm.h = f[2];
    for_rows(run, cell, [&](const CellStep& part, int64_t first) {
      LstmCell own = lstm;
      own.c_prev = before.c + first * hidden;
      own.c = run.at(c) + first * hidden;
      lstm_step(part, own);
    });
  }
}

void Recurrence::operator()(const RunContext& run) const {
  const bool lstm = kind == Kind::lstm;
  State state{run.at(h0), lstm ? run.at(c0) : nullptr};
  if (steps == 0) {
    std::copy_n(state.h, batch * hidden, run.at(h));
    if (lstm) std::copy_n(state.c, batch * hidden, run.at(c));
    return;
  }
  for (const Matrix* m : {&w, &r, &r_last}) m->prepare(run);
  if (biases >= 0) sum_biases(run);
  if (counts >= 0) read_lengths(run);
  float* const gates = run.scratch<float>(x_gates);
  for (int64_t done = 0; done < steps; done += chunk) {
    const int64_t count = std::min(chunk, steps - done), first = reverse ? steps - done - count : done;
    GemmArgs args = projection(count);
    args.a = run.at(x) + first * x_strides[0];
    args.b = run.scratch(w.packed);
    args.c = gates;
    if (biases >= 0) args.epilogue.column_bias = run.scratch<float>(biases);
    gemm(args, run.scratch(scratch), run.pool);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = reverse ? count - 1 - i : i;
      step(run, gates + at * batch * width, first + at, state);
      state = {run.at(h), lstm ? run.at(c) : nullptr};
    }
  }
}

// A constant view, or part of one: the weights of one direction.
bool constant_part(const Planner& planner, ir::Value v, ConstantView& out) {
  if (planner.constant_view(v, out)) return true;
  const ir::Op* op = planner.definition(v);
  if (!op || !ir::all_constant(planner.type(v).shape)) return false;
  if (op->primitive == &ir::prim::slice) {
    const auto& a = op->as<ir::SliceAttributes>();
    if (!ir::all_constant(a.start) || !ir::all_constant(a.limit) || !ir::all_constant(a.stride)) return false;
    if (!constant_part(planner, op->operands[0], out)) return false;
    out.view = sliced(out.view, hints(a.start), hints(a.limit), hints(a.stride));
    return true;
  }
  if (op->primitive != &ir::prim::reshape || !constant_part(planner, op->operands[0], out)) return false;
  View view;
  if (!reshaped(out.view, extents_of(hints(planner.type(v).shape)), view)) return false;
  out.view = view;
  return true;
}

// Null: the weight is known when it runs.
std::shared_ptr<const Packed> pack_rows(Planner& planner, ir::Value weight, int64_t first, int64_t n) {
  ConstantView from;
  if (!constant_part(planner, weight, from)) return nullptr;
  const int64_t k = from.view.dim(1), row = from.view.stride(0), column = from.view.stride(1);
  const int64_t offset = from.view.offset / int64_t{sizeof(float)} + first * row;
  const auto make = [&] {
    auto packed = std::make_shared<Packed>(planner.packed_memory(), packed_b_bytes(k, n), DType::f32);
    const float* const values = reinterpret_cast<const float*>(planner.aligned_bytes(from.tensor)) + offset;
    pack_b(k, n, values, Storage::f32, column, row, Storage::f32, packed->bytes, planner.pool());
    release_pages(from.tensor.bytes(), from.tensor.nbytes());
    return std::shared_ptr<const Packed>(std::move(packed));
  };
  if (!planner.has_lasting_address(weight)) return make();
  const std::string key =
      str("rnn ", reinterpret_cast<uintptr_t>(from.tensor.bytes()), " ", offset, " ", k, " ", n, " ", row, " ", column);
  return planner.store().get<Packed>(key, from.tensor, make);
}

class RecurrentStep : public Step {
 public:
  RecurrentStep(Planner& planner, const ir::Op& op) : rnn_(op.as<ir::RnnAttributes>()) {
    writes = op.results;
    x_ = op.operands[0];
    w_ = op.operands[1];
    r_ = op.operands[2];
    h0_ = op.operands[3];
    size_t next = 4;
    if (rnn_.kind == Kind::lstm) c0_ = op.operands[next++];
    if (rnn_.has_bias) bias_ = op.operands[next++];
    if (rnn_.has_lengths) lengths_ = op.operands[next++];
    if (rnn_.has_peephole) peephole_ = op.operands[next++];
    const Dim hidden = planner.type(r_).shape[1];
    if (hidden.is_constant()) {
      const int64_t h = hidden.hint(), width = gates_of(rnn_.kind) * h, last = resets_before(rnn_) ? h : 0;
      packed_w_ = pack_rows(planner, w_, 0, width);
      packed_r_ = pack_rows(planner, r_, 0, width - last);
      if (last > 0 && packed_r_) packed_last_ = pack_rows(planner, r_, width - last, last);
    }
    for (const ir::Value v : op.operands) {
      if ((v == w_ && packed_w_) || (v == r_ && packed_r_)) continue;
      reads.push_back(v);
    }
  }

  void bind(Binder& bind) const override {
    for (const ir::Value v : {h0_, c0_, bias_, lengths_, peephole_}) {
      if (v) bind.dense(v);
    }
    // dense() may have launched copies: everything is touched again for this launch.
    bind.untouch();
    const auto view = [&](ir::Value v) { return v ? bind.view(v) : View(); };
    Recurrence run;
    const View x = view(x_);
    run.x = x;
    run.h0 = view(h0_);
    run.c0 = view(c0_);
    run.bias = view(bias_);
    run.lengths = view(lengths_);
    run.peephole = view(peephole_);
    const View y = bind.allocate(writes[0]);
    run.y = y;
    run.h = bind.allocate(writes[1]);
    if (rnn_.kind == Kind::lstm) run.c = bind.allocate(writes[2]);
    run.kind = rnn_.kind;
    run.reverse = rnn_.reverse;
    run.input_forget = rnn_.input_forget;
    run.resets_before = resets_before(rnn_);
    for (size_t i = 0; i < rnn_.activations.size(); ++i) {
      run.f[i] = {static_cast<CellActivation>(rnn_.activations[i]), static_cast<float>(rnn_.alpha[i]),
                  static_cast<float>(rnn_.beta[i])};
    }
    run.clip = static_cast<float>(rnn_.clip);
    run.steps = y.dim(0);
    run.batch = y.dim(1);
    run.hidden = y.dim(2);
    run.width = gates_of(rnn_.kind) * run.hidden;
    if (run.batch * run.hidden == 0) return bind.untouch();
    for (int i = 0; i < 3; ++i) run.x_strides[i] = x.stride(i);
    run.chunk = std::clamp<int64_t>(kProjectedRows / run.batch, 1, std::max<int64_t>(run.steps, 1));
    const int64_t inputs = x.dim(2), last = run.resets_before ? run.hidden : 0;
    run.w = matrix(bind, w_, packed_w_.get(), inputs, 0, run.width);
    run.r = matrix(bind, r_, packed_r_.get(), run.hidden, 0, run.width - last);
    if (last > 0) run.r_last = matrix(bind, r_, packed_last_.get(), run.hidden, run.width - last, last);
    const auto floats = [&](int64_t count) { return bind.scratch(count * int64_t{sizeof(float)}); };
    run.x_gates = floats(run.chunk * run.batch * run.width);
    run.h_gates = floats(run.batch * run.width);
    if (last > 0) {
      run.z = floats(run.batch * run.hidden);
      run.reset_h = floats(run.batch * run.hidden);
    }
    if (bias_) run.biases = floats(2 * run.width);
    if (lengths_) run.counts = bind.scratch(run.batch * int64_t{sizeof(int64_t)});
    size_t bytes = 0;
    for (const GemmArgs& args : {run.projection(run.chunk), run.projection(std::max<int64_t>(run.steps % run.chunk, 1)),
                                 run.r.product(run.batch), run.r_last.product(run.batch)}) {
      if (args.n > 0) bytes = std::max(bytes, gemm_scratch_bytes(args, bind.threads()));
    }
    run.scratch = bind.scratch(static_cast<int64_t>(bytes));
    const double flops = 2.0 * static_cast<double>(run.steps * run.batch * run.width * (inputs + run.hidden));
    bind.launch("recurrent", flops, run);
  }

 private:
  static Matrix matrix(Binder& bind, ir::Value weight, const Packed* packed, int64_t k, int64_t first, int64_t n) {
    Matrix m{.k = k, .n = n, .packed = -1, .source = {}, .first = first};
    const int64_t bytes = static_cast<int64_t>(packed_b_bytes(k, n));
    if (packed) {
      m.packed = bind.constant(packed->bytes, bytes);
      return m;
    }
    const View view = bind.view(weight);
    m.source = view;
    m.row_stride = view.stride(0);
    m.column_stride = view.stride(1);
    m.packed = bind.scratch(bytes);
    return m;
  }

  // Copies: the op's lie elsewhere, and binding waits for each place in memory.
  const ir::RnnAttributes rnn_;
  ir::Value x_, w_, r_, h0_, c0_, bias_, lengths_, peephole_;
  std::shared_ptr<const Packed> packed_w_, packed_r_, packed_last_;
};

}  // namespace

std::unique_ptr<Step> plan_recurrent(Planner& planner, const ir::Op& op) {
  if (op.primitive != &ir::composite::rnn) return nullptr;
  const auto& rnn = op.as<ir::RnnAttributes>();
  const ir::Type& x = planner.type(op.operands[0]);
  if (x.dtype != DType::f32) {
    planner.refuse(op, "recurrent", str("computes f32, got ", name(x.dtype)));
    return nullptr;
  }
  // Without inputs there is nothing to project.
  if (x.shape[2].is_constant() && x.shape[2].hint() == 0) return nullptr;
  if (rnn.has_lengths) {
    const ir::Value lengths = op.operands[4u + (rnn.kind == Kind::lstm) + rnn.has_bias];
    const DType dtype = planner.type(lengths).dtype;
    if (dtype != DType::i64 && dtype != DType::i32) {
      planner.refuse(op, "recurrent", str("lengths are ", name(dtype)));
      return nullptr;
    }
  }
  return std::make_unique<RecurrentStep>(planner, op);
}

}  // namespace transmuter::cpu
