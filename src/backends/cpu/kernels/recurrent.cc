#include "backends/cpu/kernels/recurrent.h"

#include "backends/cpu/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/recurrent.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h.
#include "backends/cpu/kernels/recurrent-inl.h"

#if HWY_ONCE
namespace transmuter::cpu {
HWY_EXPORT(rnn_rows);
HWY_EXPORT(lstm_rows);
HWY_EXPORT(gru_rows);
HWY_EXPORT(gru_reset_rows);
HWY_EXPORT(gru_output_rows);

void rnn_step(const CellStep& cell, CellFunction f) {
  init_target();
  HWY_DYNAMIC_DISPATCH(rnn_rows)(cell, f);
}
void lstm_step(const CellStep& cell, const LstmCell& lstm) {
  init_target();
  HWY_DYNAMIC_DISPATCH(lstm_rows)(cell, lstm);
}
void gru_step(const CellStep& cell, CellFunction f, CellFunction g) {
  init_target();
  HWY_DYNAMIC_DISPATCH(gru_rows)(cell, f, g);
}
void gru_reset(const CellStep& cell, CellFunction f, float* z, float* reset_h) {
  init_target();
  HWY_DYNAMIC_DISPATCH(gru_reset_rows)(cell, f, z, reset_h);
}
void gru_output(const CellStep& cell, CellFunction g, const float* z, const float* product) {
  init_target();
  HWY_DYNAMIC_DISPATCH(gru_output_rows)(cell, g, z, product);
}

}  // namespace transmuter::cpu
#endif  // HWY_ONCE
