// What the tests of the backend pjrt share: a small program, errors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "transmuter/backend.h"
#include "transmuter/error.h"

namespace transmuter {

// x [3] + 1
inline ir::Program small_program() {
  ir::Builder build(nullptr);
  const ir::Value x = build.input({DType::f32, {3}}, "x");
  return build.finish({build.add(x, build.like(x, 1))}, {"y"});
}

inline Tensor run_small(const Backend& backend) {
  const auto executable = backend.compile(small_program(), {});
  std::vector<Buffer> inputs{backend.upload(Tensor(std::vector<float>{1, 2, 3}, {3}))};
  Bindings bindings(ShapeScope::create());
  return backend.download(executable->run(inputs, bindings)[0]);
}

template <class Fn>
std::optional<Error> error_of(const Fn& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

}  // namespace transmuter
