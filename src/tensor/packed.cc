#include "tensor/packed.h"

#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter {

DType unpacked_dtype(DType packed) {
  switch (packed) {
    case DType::i2:
    case DType::i4:
      return DType::i8;
    case DType::u2:
    case DType::u4:
    case DType::f4e2m1:
      return DType::u8;
    default:
      throw Error(ErrorCode::internal, str(name(packed), " is not a packed dtype"));
  }
}

Tensor unpack(const Tensor& tensor) {
  if (!is_packed(tensor.dtype())) return tensor;
  const int bits = bit_width(tensor.dtype());
  const int per_byte = 8 / bits;
  const unsigned mask = (1u << bits) - 1;
  // Flipping the sign bit and taking it off again extends the sign.
  const unsigned sign = is_signed_integer(tensor.dtype()) ? 1u << (bits - 1) : 0u;
  Tensor result(unpacked_dtype(tensor.dtype()), tensor.shape());
  const auto* in = reinterpret_cast<const uint8_t*>(tensor.bytes());
  auto* out = reinterpret_cast<uint8_t*>(result.mutable_bytes());
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const unsigned element = (in[i / per_byte] >> (i % per_byte * bits)) & mask;
    out[i] = static_cast<uint8_t>((element ^ sign) - sign);
  }
  return result;
}

Tensor pack(const Tensor& bytes, DType packed) {
  unpacked_dtype(packed);  // checks
  if (bit_width(bytes.dtype()) != 8)
    throw Error(ErrorCode::internal, str("pack takes one byte an element, got ", name(bytes.dtype())));
  const int bits = bit_width(packed);
  const int per_byte = 8 / bits;
  const unsigned mask = (1u << bits) - 1;
  Tensor result = Tensor::zeros(packed, bytes.shape());
  const auto* in = reinterpret_cast<const uint8_t*>(bytes.bytes());
  auto* out = reinterpret_cast<uint8_t*>(result.mutable_bytes());
  for (int64_t i = 0; i < bytes.size(); ++i) {
    const unsigned element = (in[i] & mask) << (i % per_byte * bits);
    out[i / per_byte] = static_cast<uint8_t>(out[i / per_byte] | element);
  }
  return result;
}

}  // namespace transmuter
