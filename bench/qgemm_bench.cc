// The exact 8-bit product beside the f32 one, the shapes of gemm.txt with packed B. One thread, CPU time.
//   qgemm_bench [name-filter]
#include <algorithm>
#include <cstdio>

#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/kernels/qgemm.h"
#include "backends/cpu/kernels/target.h"
#include "bench.h"

namespace transmuter::bench {
namespace {

double quantized(int64_t m, int64_t n, int64_t k, int8_t weight_low) {
  std::vector<uint8_t> a(static_cast<size_t>(m * k));
  std::vector<int8_t> b(static_cast<size_t>(k * n));
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
  for (size_t i = 0; i < b.size(); ++i) b[i] = std::max(weight_low, static_cast<int8_t>(i * 2654435761u >> 11));
  ThreadPool pool(1);
  const Aligned packed(cpu::packed_qb_bytes(k, n)), c(static_cast<size_t>(m * n) * 4);
  cpu::pack_qb(k, n, b.data(), true, n, 1, packed.data, pool);
  const int32_t zero = 128;
  const float scale = 0.01f;
  cpu::QgemmArgs g;
  g.m = m, g.n = n, g.k = k, g.a = a.data(), g.a_row = k, g.packed_b = packed.data;
  g.a_zero = &zero, g.a_scale = &scale, g.b_scale = &scale, g.c = c.floats(), g.c_row = n;
  const Aligned scratch(cpu::qgemm_scratch_bytes(g, 1));
  return best_of([&] { cpu::qgemm(g, scratch.data, pool); }, false);
}

double f32(int64_t m, int64_t n, int64_t k) {
  const Aligned a(static_cast<size_t>(m * k) * 4), b(cpu::packed_b_bytes(k, n)), c(static_cast<size_t>(m * n) * 4);
  fill(a.floats(), static_cast<size_t>(m * k));
  fill(b.floats(), cpu::packed_b_bytes(k, n) / 4);
  ThreadPool pool(1);
  cpu::GemmArgs g;
  g.m = m, g.n = n, g.k = k, g.a = a.floats(), g.a_row = k, g.b = b.data, g.b_packed = true, g.c = c.floats(),
  g.c_row = n;
  const Aligned scratch(cpu::gemm_scratch_bytes(g, 1));
  return best_of([&] { cpu::gemm(g, scratch.data, pool); }, false);
}

}  // namespace
}  // namespace transmuter::bench

int main(int argc, char** argv) {
  using namespace transmuter;
  const std::string filter = argc > 1 ? argv[1] : "";
  std::printf("%s\n", cpu::current_target().c_str());
  for (const auto& w : bench::read_shapes(SHAPES_DIR "/gemm.txt")) {
    if (w.size() < 6 || w[5] != "packed" || w[0].find(filter) == std::string::npos) continue;
    const int64_t m = std::stoll(w[1]), n = std::stoll(w[2]), k = std::stoll(w[3]);
    const double work = 2e-9 * static_cast<double>(m * n * k);
    const double q = bench::quantized(m, n, k, -127), lowest = bench::quantized(m, n, k, -128), f = bench::f32(m, n, k);
    std::printf("%-20s int8 %7.1f GOP/s, with -128 among the weights %7.1f, f32 %7.1f, int8 / f32 %.2f x\n",
                w[0].c_str(), work / q, work / lowest, work / f, f / q);
    std::fflush(stdout);
  }
}
