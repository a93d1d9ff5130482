// One step of a recurrent cell for `rows` sequences, given the products: everything between two matrix multiplications.
// Gate order and meaning are ONNX's (LSTM i o f c, GRU z r h). f32; single-threaded: split by rows to use more.
#pragma once

#include <cstdint>

namespace transmuter::cpu {

enum class CellActivation : uint8_t {
  sigmoid,
  tanh,
  relu,
  affine,            // alpha x + beta
  leaky_relu,        // alpha x below 0
  thresholded_relu,  // x above alpha, else 0
  scaled_tanh,       // alpha tanh(beta x)
  hard_sigmoid,      // alpha x + beta, between 0 and 1
  elu,               // alpha (e^x - 1) below 0
  softsign,          // x / (1 + |x|)
  softplus,          // log(1 + e^x)
};
struct CellFunction {
  CellActivation kind = CellActivation::tanh;
  float alpha = 0, beta = 0;
};

// What all cells share. Pre-activations are x_gates + h_gates (h_gates may be null), rows `x_pitch` and `h_pitch`
// apart, gates of a row one after the other; biases are in them. States are dense [rows, hidden]; a new state may be
// the memory of the old one. A row whose length is at most `step` keeps its state and gets zeros in y. clip > 0 bounds
// every pre-activation.
struct CellStep {
  const float* x_gates = nullptr;
  const float* h_gates = nullptr;
  int64_t x_pitch = 0, h_pitch = 0;
  const float* h_prev = nullptr;
  float* h = nullptr;
  float* y = nullptr;  // rows y_pitch apart; may be null
  int64_t y_pitch = 0;
  int64_t rows = 0, hidden = 0;
  float clip = 0;
  const int64_t* lengths = nullptr;  // [rows]; null: all active
  int64_t step = 0;
};

// h = f(gate)
void rnn_step(const CellStep& cell, CellFunction f);

struct LstmCell {
  const float* c_prev = nullptr;
  float* c = nullptr;
  const float* peephole = nullptr;  // [3, hidden] for i, o, f; may be null
  bool input_forget = false;        // f = 1 - i
  CellFunction f{CellActivation::sigmoid}, g, h;
};
void lstm_step(const CellStep& cell, const LstmCell& lstm);

// linear_before_reset: h = (1 - z) g(x_h + r h_h) + z h_prev, all gates in h_gates.
void gru_step(const CellStep& cell, CellFunction f, CellFunction g);
// Otherwise in two parts: z and r h_prev (dense [rows, hidden]) from the first two gates of each; then, given the
// product of r h_prev (dense; may be null), h = (1 - z) g(x_h + product) + z h_prev.
void gru_reset(const CellStep& cell, CellFunction f, float* z, float* reset_h);
void gru_output(const CellStep& cell, CellFunction g, const float* z, const float* product);

}  // namespace transmuter::cpu
