// Element types: names, widths, classes.
#include "base/strings.h"
#include "transmuter/error.h"
#include "transmuter/tensor.h"

namespace transmuter {
namespace {

enum class Class : uint8_t { none, boolean, signed_integer, unsigned_integer, floating, complex };
struct Row {
  const char* name;
  int bits;
  Class kind;
};
constexpr Row kRows[] = {
    {"invalid", 0, Class::none},
    {"bool", 8, Class::boolean},
    {"int2", 2, Class::signed_integer},
    {"int4", 4, Class::signed_integer},
    {"int8", 8, Class::signed_integer},
    {"int16", 16, Class::signed_integer},
    {"int32", 32, Class::signed_integer},
    {"int64", 64, Class::signed_integer},
    {"uint2", 2, Class::unsigned_integer},
    {"uint4", 4, Class::unsigned_integer},
    {"uint8", 8, Class::unsigned_integer},
    {"uint16", 16, Class::unsigned_integer},
    {"uint32", 32, Class::unsigned_integer},
    {"uint64", 64, Class::unsigned_integer},
    {"float4_e2m1fn", 4, Class::floating},
    {"float6_e2m3fn", 8, Class::floating},
    {"float6_e3m2fn", 8, Class::floating},
    {"float8_e4m3fn", 8, Class::floating},
    {"float8_e4m3fnuz", 8, Class::floating},
    {"float8_e5m2", 8, Class::floating},
    {"float8_e5m2fnuz", 8, Class::floating},
    {"float8_e8m0fnu", 8, Class::floating},
    {"bfloat16", 16, Class::floating},
    {"float16", 16, Class::floating},
    {"float32", 32, Class::floating},
    {"float64", 64, Class::floating},
    {"complex64", 64, Class::complex},
    {"complex128", 128, Class::complex},
    {"string", 0, Class::none},
};
static_assert(sizeof(kRows) / sizeof(kRows[0]) == static_cast<size_t>(DType::string) + 1);

const Row& row(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

const char* name(DType dtype) { return row(dtype).name; }
int bit_width(DType dtype) { return row(dtype).bits; }
bool is_float(DType dtype) { return row(dtype).kind == Class::floating; }
bool is_signed_integer(DType dtype) { return row(dtype).kind == Class::signed_integer; }
bool is_unsigned_integer(DType dtype) { return row(dtype).kind == Class::unsigned_integer; }
bool is_integer(DType dtype) { return is_signed_integer(dtype) || is_unsigned_integer(dtype); }
bool is_complex(DType dtype) { return row(dtype).kind == Class::complex; }
bool is_packed(DType dtype) { return row(dtype).bits > 0 && row(dtype).bits < 8; }

size_t byte_size(DType dtype, int64_t count) {
  const int64_t bits = bit_width(dtype);
  int64_t total = 0;
  if (count < 0) throw Error(ErrorCode::invalid_input, str("a tensor cannot have ", count, " elements"));
  if (__builtin_mul_overflow(count, bits, &total) || __builtin_add_overflow(total, 7, &total))
    throw Error(ErrorCode::invalid_input, str(count, " elements of ", name(dtype), " are more than can be addressed"));
  return static_cast<size_t>(total / 8);
}

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  bool overflow = false, empty = false;
  for (const int64_t extent : shape) {
    if (extent < 0) throw Error(ErrorCode::invalid_input, str("shape ", shape, " has a negative extent"));
    empty |= extent == 0;
    overflow |= __builtin_mul_overflow(count, extent == 0 ? 1 : extent, &count);
  }
  if (empty) return 0;
  if (overflow) throw Error(ErrorCode::invalid_input, str("shape ", shape, " has more elements than can be counted"));
  return count;
}

}  // namespace transmuter
