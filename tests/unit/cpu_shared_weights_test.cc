// Packed weights are shared by name: what is not the same must not have one name.
#include <gtest/gtest.h>

#include "ir/composites/composites.h"
#include "ir/evaluate.h"
#include "ir_testing.h"
#include "transmuter/backend.h"

namespace transmuter {
namespace {

Tensor counted(Shape shape, int modulus, float scale) {
  std::vector<float> values(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = scale * static_cast<float>(i * 7 % static_cast<size_t>(modulus));
  return Tensor(values, std::move(shape));
}

// One weight of four bits, and two halves of one tensor of scales.
TEST(CpuSharedWeights, PartsOfOneTensorAreToldApart) {
  constexpr int64_t kRows = 8, kColumns = 32, kBlock = 16;
  ir::Builder b(nullptr);
  const ir::Value x = b.input({DType::f32, {3, kColumns}}, "x");
  const ir::Value w = b.weight(counted({kRows, kColumns}, 16, 1).cast(DType::u4), "w", false);
  const ir::Value scales = b.weight(counted({2 * kRows, kColumns / kBlock}, 23, 0.125F), "scales", false);
  ir::QuantizedDotAttributes attributes;
  attributes.block = kBlock;
  attributes.zero_point = 8;
  std::vector<ir::Value> results;
  for (const int64_t first : {int64_t{0}, kRows})
    results.push_back(
        ir::quantized_dot(b, x, w, b.slice_axis(scales, 0, first, first + kRows), ir::Value{}, attributes));
  const ir::Program program = b.finish(std::move(results));
  const Tensor input = counted({3, kColumns}, 11, 0.5F);
  std::vector<Buffer> buffers{{.host = input}};
  BackendOptions options;
  options.threads = 1;
  Bindings bindings(ShapeScope::create());
  const std::vector<Buffer> got = Backend::get("cpu")->compile(program, options)->run(buffers, bindings);
  const std::vector<Tensor> want = ir::evaluate(program, std::vector<Tensor>{input}, nullptr);
  for (size_t i = 0; i < want.size(); ++i) {
    const std::vector<double> a = ir::numbers(got[i].host), e = ir::numbers(want[i]);
    for (size_t k = 0; k < e.size(); ++k) ASSERT_NEAR(a[k], e[k], 1e-3) << i << " " << k;
  }
}

}  // namespace
}  // namespace transmuter
