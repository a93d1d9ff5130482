// Mutations that know what a model is: whatever they make is messages of ONNX again, so that what lies behind the
// reader is reached.
#pragma once

#include <cstddef>
#include <cstdint>

namespace transmuter::fuzzing {

// Changes the model in place (`size` of `capacity` bytes are used); its new size, or 0 where the bytes are no model or
// the change would not fit.
size_t mutate_model(uint8_t* bytes, size_t size, size_t capacity, unsigned seed);

// Puts nodes and values of one model's graph among those of another.
size_t cross_models(const uint8_t* first, size_t first_size, const uint8_t* second, size_t second_size, uint8_t* out,
                    size_t capacity, unsigned seed);

}  // namespace transmuter::fuzzing
