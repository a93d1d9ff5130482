#include "backends/cpu/kernels/recurrent.h"

#include "cpu_vec_testing.h"

namespace transmuter::cpu {
namespace {

double plain(const CellFunction& f, double x) {
  switch (f.kind) {
    case CellActivation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case CellActivation::tanh:
      return std::tanh(x);
    case CellActivation::relu:
      return std::max(x, 0.0);
    case CellActivation::affine:
      return f.alpha * x + f.beta;
    case CellActivation::leaky_relu:
      return x < 0 ? f.alpha * x : x;
    case CellActivation::thresholded_relu:
      return x > f.alpha ? x : 0;
    case CellActivation::scaled_tanh:
      return f.alpha * std::tanh(f.beta * x);
    case CellActivation::hard_sigmoid:
      return std::max(0.0, std::min(1.0, f.alpha * x + f.beta));
    case CellActivation::elu:
      return x < 0 ? f.alpha * std::expm1(x) : x;
    case CellActivation::softsign:
      return x / (1 + std::fabs(x));
    default:
      return std::log1p(std::exp(x));
  }
}

// Operands of one step with `gates` gates; rows further apart than they are long.
struct Step {
  int64_t rows, hidden, gates;
  std::vector<float> x, r, h_prev, h, y;
  std::vector<int64_t> lengths;
  CellStep cell;

  Step(Random& random, int64_t rows_, int64_t hidden_, int64_t gates_) : rows(rows_), hidden(hidden_), gates(gates_) {
    const int64_t pitch = gates * hidden + 3;
    x = random.floats(static_cast<size_t>(rows * pitch), -3, 3);
    r = random.floats(static_cast<size_t>(rows * pitch), -1, 1);
    h_prev = random.floats(static_cast<size_t>(rows * hidden));
    h.resize(h_prev.size());
    y.assign(static_cast<size_t>(rows * (hidden + 2)), 9.0f);
    for (int64_t i = 0; i < rows; ++i) lengths.push_back(i == 1 ? 4 : 9);
    cell = {.x_gates = x.data(),
            .h_gates = r.data(),
            .x_pitch = pitch,
            .h_pitch = pitch,
            .h_prev = h_prev.data(),
            .h = h.data(),
            .y = y.data(),
            .y_pitch = hidden + 2,
            .rows = rows,
            .hidden = hidden,
            .lengths = lengths.data(),
            .step = 4};
  }
  size_t state(int64_t row, int64_t i) const { return static_cast<size_t>(row * hidden + i); }
  double gx(int64_t row, int64_t g, int64_t i) const {
    return x[static_cast<size_t>(row * cell.x_pitch + g * hidden + i)];
  }
  double gr(int64_t row, int64_t g, int64_t i) const {
    return cell.h_gates ? r[static_cast<size_t>(row * cell.h_pitch + g * hidden + i)] : 0;
  }
  double bound(double v) const {
    return cell.clip > 0 ? std::max<double>(-cell.clip, std::min<double>(cell.clip, v)) : v;
  }
  double gate(int64_t row, int64_t g, int64_t i) const { return bound(gx(row, g, i) + gr(row, g, i)); }
  bool active(int64_t row) const { return !cell.lengths || lengths[static_cast<size_t>(row)] > cell.step; }
  // want(row, i): the new state of an active row
  template <class Fn>
  void expect(const Fn& want) const {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < hidden; ++i) {
        const float at_y = y[static_cast<size_t>(row * cell.y_pitch + i)];
        if (active(row)) {
          const double w = want(row, i);
          ASSERT_NEAR(h[state(row, i)], w, 2e-6 * (1 + std::fabs(w))) << row << " " << i;
          ASSERT_EQ(at_y, h[state(row, i)]);
        } else {
          ASSERT_EQ(h[state(row, i)], h_prev[state(row, i)]);
          ASSERT_EQ(at_y, 0.0f);
        }
      }
      ASSERT_EQ(y[static_cast<size_t>(row * cell.y_pitch + hidden)], 9.0f);
    }
  }
};

const CellFunction kSigmoid{CellActivation::sigmoid}, kTanh{CellActivation::tanh};

TEST(CpuVecRecurrent, EveryActivation) {
  Random random;
  on_every_target([&] {
    for (int kind = 0; kind <= static_cast<int>(CellActivation::softplus); ++kind) {
      const CellFunction f{static_cast<CellActivation>(kind), 0.3f, 0.6f};
      for (float clip : {0.0f, 1.5f}) {
        Step s(random, 3, 37, 1);
        s.cell.clip = clip;
        rnn_step(s.cell, f);
        s.expect([&](int64_t row, int64_t i) { return plain(f, s.gate(row, 0, i)); });
      }
    }
  });
}

TEST(CpuVecRecurrent, Lstm) {
  Random random;
  on_every_target([&] {
    for (int64_t hidden = 1; hidden <= 70; hidden += hidden < 34 ? 1 : 9) {
      Step s(random, 2, hidden, 4);
      if (hidden % 3 == 0) s.cell.h_gates = nullptr;
      if (hidden % 5 == 0) s.cell.lengths = nullptr;
      if (hidden % 4 == 0) s.cell.clip = 1;
      const auto c_prev = random.floats(static_cast<size_t>(2 * hidden)),
                 p = random.floats(static_cast<size_t>(3 * hidden));
      std::vector<float> c(c_prev.size());
      const bool peephole = hidden % 2 == 0;
      LstmCell lstm{.c_prev = c_prev.data(),
                    .c = c.data(),
                    .peephole = peephole ? p.data() : nullptr,
                    .input_forget = hidden % 7 == 0,
                    .f = kSigmoid,
                    .g = kTanh,
                    .h = kTanh};
      lstm_step(s.cell, lstm);
      s.expect([&](int64_t row, int64_t i) {
        const size_t k = static_cast<size_t>(i), n = static_cast<size_t>(hidden);
        const double before = c_prev[s.state(row, i)];
        const auto peep = [&](size_t g, double state) { return peephole ? p[g * n + k] * state : 0.0; };
        const double in = plain(kSigmoid, s.bound(s.gx(row, 0, i) + s.gr(row, 0, i) + peep(0, before)));
        const double forget =
            lstm.input_forget ? 1 - in : plain(kSigmoid, s.bound(s.gx(row, 2, i) + s.gr(row, 2, i) + peep(2, before)));
        const double now = forget * before + in * plain(kTanh, s.gate(row, 3, i));
        EXPECT_NEAR(c[s.state(row, i)], now, 2e-6);
        return plain(kSigmoid, s.bound(s.gx(row, 1, i) + s.gr(row, 1, i) + peep(1, now))) * std::tanh(now);
      });
      for (int64_t i = 0; i < hidden && s.cell.lengths; ++i) ASSERT_EQ(c[s.state(1, i)], c_prev[s.state(1, i)]);
    }
  });
}

TEST(CpuVecRecurrent, GruBothWays) {
  Random random;
  on_every_target([&] {
    for (int64_t hidden : {1, 4, 15, 33, 70}) {
      Step s(random, 2, hidden, 3);
      gru_step(s.cell, kSigmoid, kTanh);
      s.expect([&](int64_t row, int64_t i) {
        const double z = plain(kSigmoid, s.gate(row, 0, i)), reset = plain(kSigmoid, s.gate(row, 1, i));
        const double candidate = std::tanh(s.gx(row, 2, i) + reset * s.gr(row, 2, i));
        return (1 - z) * candidate + z * s.h_prev[s.state(row, i)];
      });
      std::vector<float> z(s.h.size()), reset_h(s.h.size());
      const auto product = random.floats(s.h.size());
      gru_reset(s.cell, kSigmoid, z.data(), reset_h.data());
      gru_output(s.cell, kTanh, z.data(), product.data());
      s.expect([&](int64_t row, int64_t i) {
        const double u = plain(kSigmoid, s.gate(row, 0, i)), before = s.h_prev[s.state(row, i)];
        EXPECT_NEAR(reset_h[s.state(row, i)], plain(kSigmoid, s.gate(row, 1, i)) * before, 1e-6);
        return (1 - u) * std::tanh(s.gx(row, 2, i) + product[s.state(row, i)]) + u * before;
      });
    }
  });
}

}  // namespace
}  // namespace transmuter::cpu
