// gemm against this core's multiply-add peak, and against oneDNN where CMake found it.
//   gemm_bench [--threads N] [--wall] [name-filter]
// One thread and CPU time by default. Columns: GF/s of ours, part of the peak, oneDNN's GF/s, ratio of times.
#include <algorithm>
#include <cstdio>

#include "backends/cpu/kernels/gemm.h"
#include "kernel_bench.h"

#if TRANSMUTER_BENCH_DNNL
#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace transmuter::bench {
namespace {

struct Shape {
  std::string name;
  int64_t m, n, k, batch;
  bool packed, b_transposed;
};

double ours(const Shape& s, int threads, bool wall) {
  const auto size = [&](int64_t rows, int64_t columns) { return static_cast<size_t>(s.batch * rows * columns); };
  const size_t a_size = size(s.m, s.k), b_size = size(s.k, s.n), c_size = size(s.m, s.n);
  const Aligned a(a_size * 4), b(b_size * 4), c(c_size * 4);
  fill(a.floats(), a_size);
  fill(b.floats(), b_size);
  ThreadPool pool(threads);
  cpu::GemmArgs g{
      .m = s.m, .n = s.n, .k = s.k, .a = a.floats(), .a_row = s.k, .b = b.floats(), .c = c.floats(), .c_row = s.n};
  g.b_row = s.b_transposed ? 1 : s.n;
  g.b_column = s.b_transposed ? s.k : 1;
  g.batch_rank = 1;
  g.batch[0] = s.batch;
  g.a_batch[0] = s.m * s.k, g.b_batch[0] = s.k * s.n, g.c_batch[0] = s.m * s.n;
  const size_t packed_bytes = s.packed ? cpu::packed_b_bytes(s.k, s.n) : 0;
  const Aligned packed(packed_bytes * static_cast<size_t>(s.batch));
  if (s.packed) {
    cpu::pack_b(s.k, s.n, b.data, cpu::Storage::f32, g.b_row, g.b_column, cpu::Storage::f32, packed.data, pool);
    g.b = packed.data;
    g.b_packed = true;
  }
  const Aligned scratch(cpu::gemm_scratch_bytes(g, threads));
  return best_of([&] { cpu::gemm(g, scratch.data, pool); }, wall);
}

#if TRANSMUTER_BENCH_DNNL
double dnnl_time(const Shape& s, bool wall) {
  using namespace dnnl;
  using tag = memory::format_tag;
  engine cpu(engine::kind::cpu, 0);
  stream stream(cpu);
  const auto f32 = memory::data_type::f32;
  const memory::desc a({s.batch, s.m, s.k}, f32, tag::abc);
  const memory::desc b_plain({s.batch, s.k, s.n}, f32, s.b_transposed ? tag::acb : tag::abc);
  const memory::desc b_any({s.batch, s.k, s.n}, f32, tag::any);
  const memory::desc c({s.batch, s.m, s.n}, f32, tag::abc);
  const matmul::primitive_desc what(matmul::desc(a, s.packed ? b_any : b_plain, c), cpu);
  memory a_memory(a, cpu), b_memory(b_plain, cpu), c_memory(c, cpu), b_packed(what.weights_desc(), cpu);
  fill(static_cast<float*>(a_memory.get_data_handle()), a.get_size() / 4);
  fill(static_cast<float*>(b_memory.get_data_handle()), b_plain.get_size() / 4);
  if (s.packed) reorder(b_memory, b_packed).execute(stream, b_memory, b_packed);
  matmul primitive(what);
  const std::unordered_map<int, memory> args = {
      {DNNL_ARG_SRC, a_memory}, {DNNL_ARG_WEIGHTS, s.packed ? b_packed : b_memory}, {DNNL_ARG_DST, c_memory}};
  return best_of([&] { primitive.execute(stream, args), stream.wait(); }, wall);
}
#endif

int run(int argc, char** argv) {
  const Options options = start(argc, argv);
  for (const auto& words : read_shapes(SHAPES_DIR "/gemm.txt")) {
    if (words.size() < 6 || words[0].find(options.filter) == std::string::npos) continue;
    const Shape s{words[0],
                  std::stoll(words[1]),
                  std::stoll(words[2]),
                  std::stoll(words[3]),
                  std::stoll(words[4]),
                  words[5] == "packed",
                  words.size() > 6 && words[6] == "nt"};
    const double work = 2.0 * static_cast<double>(s.m * s.n * s.k * s.batch);
    std::printf("%-24s %5ld %5ld %5ld %3ld  ", s.name.c_str(), s.m, s.n, s.k, s.batch);
    const double time = ours(s, options.threads, options.wall);
    print_rate(options, work, time);
#if TRANSMUTER_BENCH_DNNL
    print_dnnl(work, time, dnnl_time(s, options.wall));
#endif
    end_line();
  }
  return 0;
}

}  // namespace
}  // namespace transmuter::bench

int main(int argc, char** argv) { return transmuter::bench::run(argc, argv); }
