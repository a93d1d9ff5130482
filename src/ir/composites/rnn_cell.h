// One step of an rnn in IR.
#pragma once

#include <utility>

#include "ir/composites/composites.h"

namespace transmuter::ir {

int64_t gate_count(RnnAttributes::Kind kind);  // 4, 3, 1

struct RnnCell {
  Builder& b;
  const RnnAttributes& rnn;
  Dim hidden;
  DType dtype;
  Value r{}, recurrent_bias{}, peephole{};

  // From the projected input with its bias [b, g h] and the state to the next h and (LSTM) c.
  std::pair<Value, Value> step(Value input, Value h, Value c);

 private:
  Value activate(size_t which, Value x, bool clipped = true);
  Value gate(Value gates, int64_t index) { return b.slice_axis(gates, 1, hidden * index, hidden * (index + 1)); }
  Value recurrent(Value h, int64_t first_gate, int64_t end_gate);
  Value peep(Value x, Value c, int64_t index);
  std::pair<Value, Value> step_lstm(Value input, Value h, Value c);
  Value step_gru(Value input, Value h);
};

}  // namespace transmuter::ir
