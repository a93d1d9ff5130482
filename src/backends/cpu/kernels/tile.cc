#include "backends/cpu/kernels/tile.h"

#include "backends/cpu/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/tile.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h.
#include "backends/cpu/kernels/tile-inl.h"

#if HWY_ONCE
namespace transmuter::cpu {
HWY_EXPORT(tile_range);

void run_tile(const TileProgram& program, const int64_t* dims, int rank, const TileInput* inputs,
              const TileOutput* outputs, int64_t begin, int64_t end) {
  init_target();
  HWY_DYNAMIC_DISPATCH(tile_range)(program, dims, rank, inputs, outputs, begin, end);
}

}  // namespace transmuter::cpu
#endif  // HWY_ONCE
