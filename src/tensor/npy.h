// NumPy's .npy files, format versions 1 to 3, as numpy.lib.format describes them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "transmuter/tensor.h"

namespace transmuter {

// Little-endian bool, integers, f16, f32, f64, complex; C or Fortran order. The data is copied. Throws Error
// invalid_input for anything else (strings, objects, records, big-endian) with the file in the chain.
Tensor read_npy(const std::string& path);
Tensor parse_npy(std::string_view bytes);

// C order, version 1. Types that NumPy lacks are widened: bf16, f8 and f4 to float32; i2 and i4 to int8, u2 and u4 to
// uint8. Throws Error unsupported for strings, io.
void write_npy(const std::string& path, const Tensor& tensor);
std::string serialize_npy(const Tensor& tensor);

}  // namespace transmuter
