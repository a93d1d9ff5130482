#include "maker.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"

namespace transmuter::runtime::testing {

int32_t type_number(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 1;
    case DType::u8:
      return 2;
    case DType::i8:
      return 3;
    case DType::u16:
      return 4;
    case DType::i16:
      return 5;
    case DType::i32:
      return 6;
    case DType::i64:
      return 7;
    case DType::boolean:
      return 9;
    case DType::f16:
      return 10;
    case DType::f64:
      return 11;
    case DType::u32:
      return 12;
    case DType::u64:
      return 13;
    case DType::bf16:
      return 16;
    default:
      throw Error(ErrorCode::internal, str("no number for ", name(dtype)));
  }
}

double rounding_unit(DType dtype) {
  return dtype == DType::f64 ? 0x1p-52 : dtype == DType::f32 ? 0x1p-23 : dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
}

double GraphMaker::exact_limit(DType dtype) {
  return dtype == DType::bf16 ? 256 : dtype == DType::f16 ? 1024 : 4194304;
}

Tensor numbers_for(const RandomInput& input, const Shape& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  const DType dtype = input.value.dtype;
  std::vector<int64_t> numbers(static_cast<size_t>(element_count(shape)));
  for (int64_t& n : numbers) {
    const uint64_t bits = random();
    if (!input.wild) {
      n = input.low + static_cast<int64_t>(bits % static_cast<uint64_t>(input.high - input.low + 1));
      continue;
    }
    // As many low bits as the dtype has, so that the cast keeps them.
    const int unused = 64 - bit_width(dtype);
    n = is_signed_integer(dtype) ? static_cast<int64_t>(bits) >> unused : static_cast<int64_t>(bits >> unused);
  }
  const Tensor whole(numbers, shape);
  return dtype == DType::u64 ? whole.bitcast(DType::u64) : whole.cast(dtype);
}

RandomGraph GraphMaker::make() {
  const int64_t inputs = below(3) + 1;
  for (int64_t i = 0; i < inputs; ++i) add_input();
  const int64_t wanted = below(8) + 2;
  for (int64_t made = 0, tries = 0; made < wanted && tries < 400; ++tries) made += step();
  // Whatever nothing reads.
  for (const RandomValue& v : values_)
    if (!read(v.name)) graph_.outputs.push_back(v);
  for (const RandomValue& v : graph_.outputs) graph_.parts.outputs.push_back(value(v.name, type_number(v.dtype)));
  return std::move(graph_);
}

Shape GraphMaker::some_shape(int64_t rank) {
  Shape shape;
  for (int64_t i = 0; i < rank; ++i) {
    int64_t size = below(16) == 0 ? 0 : extent();
    if (element_count(shape) * size > 3000) size = 2;
    shape.push_back(size);
  }
  return shape;
}

void GraphMaker::add_input() {
  constexpr DType kTypes[] = {DType::f32,  DType::f32, DType::f32, DType::f32, DType::f64,    DType::f16,
                              DType::bf16, DType::i32, DType::i64, DType::i64, DType::u8,     DType::i8,
                              DType::u16,  DType::i16, DType::u32, DType::u64, DType::boolean};
  const DType dtype = one_of(kTypes);
  const bool is_unsigned = is_whole(dtype) && !is_signed_integer(dtype);
  const bool wild = is_whole(dtype) && below(4) == 0;  // wraps around
  input(dtype, some_shape(below(5)), is_unsigned || dtype == DType::boolean ? 0 : -4, dtype == DType::boolean ? 1 : 4,
        wild);
}

RandomValue GraphMaker::input(DType dtype, const Shape& shape, int64_t low, int64_t high, bool wild) {
  RandomInput made;
  made.value.name = str("in", graph_.inputs.size());
  made.value.dtype = dtype;
  made.value.shape = shape;
  made.value.bound = static_cast<double>(std::max(std::abs(low), std::abs(high)));
  made.low = low, made.high = high, made.wild = wild;
  graph_.feeds[made.value.name] = numbers_for(made, shape, random_());
  graph_.text += str(made.value.name, " = input ", name(dtype), " ", shape, wild ? " wild" : "", "\n");
  graph_.inputs.push_back(made);
  values_.push_back(made.value);
  return made.value;
}

RandomValue GraphMaker::weight(DType dtype, const Shape& shape, int64_t low, int64_t high, bool constant_only) {
  if (!constant_only && below(5) == 0) return input(dtype, shape, low, high);
  RandomInput made;
  made.value.dtype = dtype;
  made.value.shape = shape;
  made.value.bound = static_cast<double>(std::max(std::abs(low), std::abs(high)));
  made.low = low, made.high = high;
  made.value.name = constant(numbers_for(made, shape, random_()));
  return made.value;
}

std::string GraphMaker::constant(const std::vector<int64_t>& numbers, bool scalar) {
  const std::string name = str("c", graph_.parts.initializers.size());
  graph_.parts.initializers.push_back(int64_tensor(name, numbers, scalar));
  graph_.text += str(name, " = ", numbers, "\n");
  return name;
}

std::string GraphMaker::constant(const Tensor& tensor) {
  const std::string name = str("c", graph_.parts.initializers.size());
  graph_.parts.initializers.push_back(
      onnx::testing::tensor(name, type_number(tensor.dtype()), tensor.shape(),
                            {reinterpret_cast<const char*>(tensor.bytes()), tensor.nbytes()}));
  graph_.text += str(name, " = constant ", transmuter::name(tensor.dtype()), " ", tensor.shape(), "\n");
  return name;
}

bool GraphMaker::read(const std::string& name) const {
  return std::find(read_.begin(), read_.end(), name) != read_.end();
}

bool GraphMaker::emit(const std::string& op, const Strings& inputs, RandomValue result, const Strings& attributes,
                      const std::string& domain) {
  return emit_all(op, inputs, {std::move(result)}, attributes, domain);
}

bool GraphMaker::emit_all(const std::string& op, const Strings& inputs, std::vector<RandomValue> results,
                          const Strings& attributes, const std::string& domain) {
  for (const RandomValue& result : results) {
    if (is_real(result.dtype) && !(result.bound <= exact_limit(result.dtype))) return false;
    if (!result.terminal && element_count(result.shape) > 40000) return false;
  }
  Strings names;
  std::string line(static_cast<size_t>(2 * depth_), ' ');
  for (RandomValue& result : results) {
    result.name = str("v", names_++);
    names.push_back(result.name);
    line += str(result.name, " ", name(result.dtype), " ", result.shape, ", ");
  }
  nodes_->push_back(node(op, inputs, names, attributes, domain));
  line += "= " + op + "(";
  for (const std::string& input : inputs) line += input + " ";
  graph_.text += line + ")\n";
  read_.insert(read_.end(), inputs.begin(), inputs.end());
  for (RandomValue& result : results) values_.push_back(std::move(result));
  return true;
}

bool GraphMaker::broadcast(const Shape& a, const Shape& b, Shape& out) {
  out.assign(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return false;
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return true;
}

bool GraphMaker::step() {
  switch (below(25)) {
    case 0:
    case 1:
    case 2:
      return binary();
    case 3:
    case 4:
      return unary();
    case 5:
      return compare();
    case 6:
      return bits();
    case 7:
      return cast();
    case 8:
    case 9:
    case 10:
      return move();
    case 11:
    case 12:
      return reduce();
    case 13:
      return contract();
    case 14:
      return gather();
    case 15:
      return scatter();
    case 16:
      return sort();
    case 17:
      return other_picks();
    case 18:
      return convolve();
    case 19:
      return coin() ? pool() : normalize_channels();
    case 20:
      return coin() ? convolve_back() : pool();
    case 21:
      return pattern();
    case 22:
    case 23:
      return quantized();
    default:
      return region();
  }
}

}  // namespace transmuter::runtime::testing
