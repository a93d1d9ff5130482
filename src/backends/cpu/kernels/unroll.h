// TM_UNROLL before a loop with a constant, small count: arrays of vectors indexed by it then live in registers.
#pragma once

#if defined(__clang__)
#define TM_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define TM_UNROLL _Pragma("GCC unroll 32")
#else
#define TM_UNROLL
#endif
