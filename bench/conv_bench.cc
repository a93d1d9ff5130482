// conv and conv_last (channels last) against this core's multiply-add peak; conv_last against oneDNN, which may choose
// its own layouts, where CMake found it. Winograd's products are counted as the plain ones, so they may pass the peak.
//   conv_bench [--threads N] [--wall] [name-filter]
#include <algorithm>
#include <cstdio>

#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/conv_last.h"
#include "kernel_bench.h"

#if TRANSMUTER_BENCH_DNNL
#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace transmuter::bench {
namespace {

struct Shape {
  std::string name;
  int64_t in, out, groups, size, kernel, stride, pad;
  int64_t out_size() const { return (size + 2 * pad - kernel) / stride + 1; }
};

double ours_last(const Shape& s, int threads, bool wall) {
  cpu::ConvLastArgs c;
  c.in_channels = s.in, c.out_channels = s.out, c.groups = s.groups;
  for (int axis = 1; axis < 3; ++axis) {
    c.windows.in[axis] = s.size, c.windows.out[axis] = s.out_size(), c.windows.kernel[axis] = s.kernel;
    c.windows.stride[axis] = s.stride, c.windows.pad[axis] = s.pad;
  }
  const int64_t in_pixels = c.windows.in_pixels(), out_pixels = c.windows.out_pixels();
  c.x_image = in_pixels * s.in, c.x_row = s.size * s.in, c.x_pixel = s.in;
  // The first one of a network finds its input channels first.
  if (conv_last_copies(c)) c.x_row = s.size, c.x_pixel = 1, c.x_channel = in_pixels;
  const auto x_size = static_cast<size_t>(c.x_image), y_size = static_cast<size_t>(out_pixels * s.out);
  const auto filter_size = static_cast<size_t>(s.out * s.in / s.groups * s.kernel * s.kernel);
  const Aligned x(x_size * 4), y(y_size * 4), filters(filter_size * 4), bias(static_cast<size_t>(s.out) * 4);
  fill(x.floats(), x_size);
  fill(filters.floats(), filter_size);
  fill(bias.floats(), static_cast<size_t>(s.out));
  c.x = x.floats(), c.y = y.floats();
  c.epilogue.column_bias = bias.floats();
  c.epilogue.activation = cpu::Activation::relu;
  ThreadPool pool(threads);
  c.way = conv_last_way(c);
  const Aligned packed(cpu::conv_last_packed_bytes(c));
  cpu::conv_last_pack(c, filters.floats(), packed.data, pool);
  c.packed_filters = packed.data;
  const Aligned scratch(cpu::conv_last_scratch_bytes(c, threads));
  return best_of([&] { cpu::conv_last(c, scratch.data, pool); }, wall);
}

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
  const Options options = start(argc, argv);
  for (const auto& w : read_shapes(SHAPES_DIR "/conv.txt")) {
    if (w.size() < 8 || w[0].find(options.filter) == std::string::npos) continue;
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
    std::printf("%-24s ", s.name.c_str());
    print_rate(options, work, ours(s, options.threads, options.wall));
    std::printf("   channels last ");
    const double time = ours_last(s, options.threads, options.wall);
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
