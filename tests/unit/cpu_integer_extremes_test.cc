// Integer products at the extremes (u8 255 with s8 127 and -128, 768 terms), through whole models on every instruction
// set: fixed weights (packed) and weights that the run brings, one row, few rows and many, convolutions of every kind.
#include "backends/cpu/kernels/target.h"
#include "base/strings.h"
#include "cpu_vec_testing.h"
#include "runtime_testing.h"

namespace transmuter::runtime::testing {
namespace {

constexpr int32_t kU8 = 2, kI8 = 3;
constexpr int64_t kTerms = 768;

struct Bytes {
  int32_t type = kU8;
  Shape shape;
  std::vector<int64_t> numbers;

  Tensor tensor() const { return Tensor(numbers, shape).cast(type == kU8 ? DType::u8 : DType::i8); }
  std::string initializer(const std::string& name) const {
    const Tensor t = tensor();
    return onnx::testing::tensor(name, type, shape, {reinterpret_cast<const char*>(t.bytes()), t.nbytes()});
  }
};

// All highest, all lowest, or one after the other.
Bytes extremes(int32_t type, const Shape& shape, int pattern) {
  Bytes out{type, shape, {}};
  const int64_t low = type == kU8 ? 0 : -128, high = type == kU8 ? 255 : 127;
  for (int64_t i = 0; i < element_count(shape); ++i)
    out.numbers.push_back(pattern == 0 ? high : pattern == 1 ? low : i % 2 == 0 ? high : low);
  return out;
}

std::string byte_scalar(const std::string& name, int32_t type, int64_t number) {
  return Bytes{type, {}, {number}}.initializer(name);
}

// One node of `op` on x and w; `fixed`: the weights are in the file.
TensorMap run_on(const std::string& backend, const std::string& op, const Bytes& x, const Bytes& w, bool fixed,
                 const Strings& more_inputs, const Strings& initializers, const Strings& attributes = {}) {
  GraphParts parts;
  Strings inputs = more_inputs;
  parts.nodes = {node(op, inputs, {"y"}, attributes)};
  parts.inputs = {value("x", x.type)};
  parts.outputs = {value("y", 0)};
  parts.initializers = initializers;
  TensorMap feeds{{"x", x.tensor()}};
  if (fixed) {
    parts.initializers.push_back(w.initializer("w"));
  } else {
    parts.inputs.push_back(value("w", w.type));
    feeds["w"] = w.tensor();
  }
  CompileOptions options;
  options.backend = backend;
  options.threads = 1;
  return load(parts, 21, 10).compile(options)(feeds);
}

std::vector<int64_t> numbers_of(const Value& value) {
  return static_cast<const Tensor&>(value).aligned().cast(DType::i64).to_vector<int64_t>();
}

// fn(x, w, fixed, what) for both signs of both sides and all patterns.
template <class Fn>
void for_each_kind(const Shape& x_shape, const Shape& w_shape, const Fn& fn) {
  for (const int32_t x_type : {kU8, kI8}) {
    for (const int32_t w_type : {kU8, kI8}) {
      for (int pattern = 0; pattern < 9; ++pattern) {
        for (const bool fixed : {true, false}) {
          fn(extremes(x_type, x_shape, pattern % 3), extremes(w_type, w_shape, pattern / 3), fixed,
             str(cpu::current_target(), ", types ", x_type, " ", w_type, ", pattern ", pattern,
                 fixed ? ", fixed" : ", given"));
        }
      }
    }
  }
}

TEST(CpuIntegerExtremes, MatMulInteger) {
  cpu::on_all_targets([] {
    for (const int64_t rows : {1, 3, 17}) {
      const int64_t columns = 35;
      for_each_kind(
          {rows, kTerms}, {kTerms, columns}, [&](const Bytes& x, const Bytes& w, bool fixed, const std::string& what) {
            const int64_t x_zero = x.type == kU8 ? 255 : -128, w_zero = w.type == kU8 ? 3 : 127;
            for (const bool zeros : {false, true}) {
              Strings inputs{"x", "w"}, constants;
              if (zeros) {
                inputs.insert(inputs.end(), {"xz", "wz"});
                constants = {byte_scalar("xz", x.type, x_zero), byte_scalar("wz", w.type, w_zero)};
              }
              const auto got = numbers_of(run_on("cpu", "MatMulInteger", x, w, fixed, inputs, constants).at("y"));
              std::vector<int64_t> want;
              for (int64_t i = 0; i < rows; ++i) {
                for (int64_t j = 0; j < columns; ++j) {
                  int64_t sum = 0;
                  for (int64_t k = 0; k < kTerms; ++k)
                    sum += (x.numbers[static_cast<size_t>(i * kTerms + k)] - (zeros ? x_zero : 0)) *
                           (w.numbers[static_cast<size_t>(k * columns + j)] - (zeros ? w_zero : 0));
                  want.push_back(sum);
                }
              }
              ASSERT_EQ(got, want) << what << ", rows " << rows << ", zero points " << zeros;
            }
          });
    }
  });
}

// 768 terms a window, as 3 x 3 of 86 channels (774), 1 x 1 of 768, and depthwise where a window has nine.
TEST(CpuIntegerExtremes, ConvInteger) {
  struct Kind {
    const char* name;
    Shape x, w;
    int64_t groups, pad;
  };
  const Kind kinds[] = {{"3 x 3", {1, 86, 5, 5}, {5, 86, 3, 3}, 1, 1},
                        {"pointwise", {1, 768, 3, 3}, {17, 768, 1, 1}, 1, 0},
                        {"depthwise", {1, 20, 6, 6}, {20, 1, 3, 3}, 20, 1},
                        {"groups", {1, 40, 4, 4}, {8, 20, 2, 2}, 2, 0}};
  cpu::on_all_targets([&] {
    for (const Kind& kind : kinds) {
      for_each_kind(kind.x, kind.w, [&](const Bytes& x, const Bytes& w, bool fixed, const std::string& what) {
        const int64_t zero = x.type == kU8 ? 128 : -1;
        const Strings constants{byte_scalar("xz", x.type, zero)};
        const Strings attributes{int_attribute("group", kind.groups),
                                 ints_attribute("pads", {kind.pad, kind.pad, kind.pad, kind.pad})};
        const auto got =
            numbers_of(run_on("cpu", "ConvInteger", x, w, fixed, {"x", "w", "xz"}, constants, attributes).at("y"));
        std::vector<int64_t> want;
        const int64_t in = kind.w[1], height = kind.x[2], width = kind.x[3], size = kind.w[2];
        const int64_t out = height + 2 * kind.pad - size + 1;
        for (int64_t m = 0; m < kind.w[0]; ++m) {
          const int64_t first = m / (kind.w[0] / kind.groups) * in;
          for (int64_t p = 0; p < out * out; ++p) {
            int64_t sum = 0;
            for (int64_t c = 0; c < in; ++c) {
              for (int64_t t = 0; t < size * size; ++t) {
                const int64_t i = p / out + t / size - kind.pad, j = p % out + t % size - kind.pad;
                if (i < 0 || j < 0 || i >= height || j >= width) continue;
                sum += (x.numbers[static_cast<size_t>(((first + c) * height + i) * width + j)] - zero) *
                       w.numbers[static_cast<size_t>((m * in + c) * size * size + t)];
              }
            }
            want.push_back(sum);
          }
        }
        ASSERT_EQ(got, want) << kind.name << " " << what;
      });
    }
  });
}

// With scales behind them: the reference's answer to the last step, whichever side of a tie it falls on.
TEST(CpuIntegerExtremes, QLinearProductsEqualTheReference) {
  cpu::on_all_targets([] {
    for (const int64_t rows : {1, 5}) {
      for_each_kind(
          {rows, kTerms}, {kTerms, 33}, [&](const Bytes& x, const Bytes& w, bool fixed, const std::string& what) {
            for (const float scale : {98304.F, 500.F, 3.F}) {
              const Strings inputs{"x", "one", "xz", "w", "half", "wz", "ys", "yz"};
              const auto scalar = [](const std::string& name, float number) {
                return onnx::testing::tensor(name, kFloat, {}, floats({number}));
              };
              const Strings constants{scalar("one", 1),    byte_scalar("xz", x.type, 1),
                                      scalar("half", .5F), byte_scalar("wz", w.type, 0),
                                      scalar("ys", scale), byte_scalar("yz", x.type, 7)};
              const auto got = numbers_of(run_on("cpu", "QLinearMatMul", x, w, fixed, inputs, constants).at("y"));
              const auto want =
                  numbers_of(run_on("reference", "QLinearMatMul", x, w, fixed, inputs, constants).at("y"));
              ASSERT_EQ(got, want) << what << ", scale " << scale;
            }
          });
    }
  });
}

}  // namespace
}  // namespace transmuter::runtime::testing
