// conv against this core's multiply-add peak, and against oneDNN (which may choose its own layouts) where CMake found
// it.
//   conv_bench [--threads N] [--wall] [name-filter]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/target.h"
#include "bench.h"

#if TRANSMUTER_BENCH_DNNL
#include <unistd.h>

#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace transmuter::bench {
namespace {

struct Shape {
  std::string name;
  int64_t in, out, groups, size, kernel, stride, pad;
  int64_t out_size() const { return (size + 2 * pad - kernel) / stride + 1; }
};

double ours(const Shape& s, int threads, bool wall) {
  cpu::ConvArgs c;
  c.in_channels = s.in, c.out_channels = s.out, c.groups = s.groups;
  for (int axis = 1; axis < 3; ++axis) {
    c.windows.in[axis] = s.size, c.windows.out[axis] = s.out_size(), c.windows.kernel[axis] = s.kernel;
    c.windows.stride[axis] = s.stride, c.windows.pad[axis] = s.pad;
  }
  c.x_channel = c.windows.in_pixels(), c.x_image = c.x_channel * s.in;
  c.y_channel = c.windows.out_pixels(), c.y_image = c.y_channel * s.out;
  const auto x_size = static_cast<size_t>(c.x_image), y_size = static_cast<size_t>(c.y_image);
  const auto filter_size = static_cast<size_t>(s.out * s.in / s.groups * s.kernel * s.kernel);
  const Aligned x(x_size * 4), y(y_size * 4), filters(filter_size * 4), bias(static_cast<size_t>(s.out) * 4);
  fill(x.floats(), x_size);
  fill(filters.floats(), filter_size);
  fill(bias.floats(), static_cast<size_t>(s.out));
  c.x = x.floats(), c.y = y.floats(), c.filters = filters.floats();
  c.epilogue.row_bias = bias.floats();
  c.epilogue.activation = cpu::Activation::relu;
  ThreadPool pool(threads);
  const size_t packed_bytes = cpu::conv_packed_bytes(c);
  const Aligned packed(packed_bytes);
  if (packed_bytes) {
    cpu::conv_pack(c, packed.data, pool);
    c.packed_filters = packed.data;
  }
  const Aligned scratch(cpu::conv_scratch_bytes(c, threads));
  return best_of([&] { cpu::conv(c, scratch.data, pool); }, wall);
}

#if TRANSMUTER_BENCH_DNNL
double dnnl_time(const Shape& s, bool wall) {
  using namespace dnnl;
  engine cpu(engine::kind::cpu, 0);
  stream stream(cpu);
  const auto f32 = memory::data_type::f32;
  const auto any = memory::format_tag::any;
  const memory::dims filter_dims = s.groups == 1
                                       ? memory::dims{s.out, s.in, s.kernel, s.kernel}
                                       : memory::dims{s.groups, s.out / s.groups, s.in / s.groups, s.kernel, s.kernel};
  const memory::desc x({1, s.in, s.size, s.size}, f32, any), y({1, s.out, s.out_size(), s.out_size()}, f32, any);
  const memory::desc filters(filter_dims, f32, any), bias({s.out}, f32, memory::format_tag::a);
  post_ops ops;
  ops.append_eltwise(1, algorithm::eltwise_relu, 0, 0);
  primitive_attr attributes;
  attributes.set_post_ops(ops);
  const convolution_forward::primitive_desc what(
      convolution_forward::desc(prop_kind::forward_inference, algorithm::convolution_direct, x, filters, bias, y,
                                {s.stride, s.stride}, {s.pad, s.pad}, {s.pad, s.pad}),
      attributes, cpu);
  const auto filled = [&](const memory::desc& desc) {
    memory m(desc, cpu);
    fill(static_cast<float*>(m.get_data_handle()), desc.get_size() / 4);
    return m;
  };
  convolution_forward primitive(what);
  const std::unordered_map<int, memory> args = {{DNNL_ARG_SRC, filled(what.src_desc())},
                                                {DNNL_ARG_WEIGHTS, filled(what.weights_desc())},
                                                {DNNL_ARG_BIAS, filled(bias)},
                                                {DNNL_ARG_DST, filled(what.dst_desc())}};
  return best_of([&] { primitive.execute(stream, args), stream.wait(); }, wall);
}
#endif

int run(int argc, char** argv) {
  int threads = 1;
  bool wall = false;
  std::string filter;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--threads") && i + 1 < argc) {
      threads = std::atoi(argv[++i]);
    } else if (!std::strcmp(argv[i], "--wall")) {
      wall = true;
    } else {
      filter = argv[i];
    }
  }
  wall = wall || threads > 1;
#if TRANSMUTER_BENCH_DNNL
  // Its OpenMP reads the count when it is loaded, so the process starts again.
  const std::string count = std::to_string(threads);
  if (const char* set = std::getenv("OMP_NUM_THREADS"); !set || count != set) {
    setenv("OMP_NUM_THREADS", count.c_str(), 1);
    execv("/proc/self/exe", argv);
  }
#endif
  cpu::init_target();
  std::printf("%s, %d thread(s), %s time, peak %.1f GF/s a core\n", cpu::current_target().c_str(), threads,
              wall ? "wall" : "CPU", fma_peak() * 1e-9);
  for (const auto& w : read_shapes(SHAPES_DIR "/conv.txt")) {
    if (w.size() < 8 || w[0].find(filter) == std::string::npos) continue;
    const Shape s{w[0],
                  std::stoll(w[1]),
                  std::stoll(w[2]),
                  std::stoll(w[3]),
                  std::stoll(w[4]),
                  std::stoll(w[5]),
                  std::stoll(w[6]),
                  std::stoll(w[7])};
    const double work =
        2.0 * static_cast<double>(s.out_size() * s.out_size() * s.out * s.in / s.groups * s.kernel * s.kernel);
    const double peak = fma_peak() * threads, time = ours(s, threads, wall);
    std::printf("%-24s %9.1f us %7.1f GF/s %5.1f %%", s.name.c_str(), time * 1e6, work / time * 1e-9,
                100 * work / time / peak);
#if TRANSMUTER_BENCH_DNNL
    const double other = dnnl_time(s, wall);
    std::printf("   oneDNN %7.1f GF/s, %.2f x", work / other * 1e-9, other / time);
#endif
    std::printf("\n");
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace transmuter::bench

int main(int argc, char** argv) { return transmuter::bench::run(argc, argv); }
