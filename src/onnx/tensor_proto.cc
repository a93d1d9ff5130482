#include "onnx/tensor_proto.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <protozero/pbf_writer.hpp>
#include <vector>

#include "onnx/wire.h"

namespace transmuter::onnx {
namespace {

constexpr size_t kMaxRank = 64;
// A sparse tensor may become this much larger than its bytes, or kSparseFloor.
constexpr size_t kSparseGrowth = 1024;
constexpr size_t kSparseFloor = size_t{64} << 20;

// By TensorProto.DataType number.
constexpr std::array<DType, 29> kDTypes = {
    DType::invalid,    DType::f32,    DType::u8,         DType::i8,      DType::u16,   DType::i16,
    DType::i32,        DType::i64,    DType::string,     DType::boolean, DType::f16,   DType::f64,
    DType::u32,        DType::u64,    DType::c64,        DType::c128,    DType::bf16,  DType::f8e4m3fn,
    DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz, DType::u4,      DType::i4,    DType::f4e2m1,
    DType::f8e8m0,     DType::u2,     DType::i2,         DType::f6e2m3,  DType::f6e3m2};

// TensorProto field numbers of the typed data.
constexpr uint32_t kFloatData = 4;
constexpr uint32_t kInt32Data = 5;
constexpr uint32_t kStringData = 6;
constexpr uint32_t kInt64Data = 7;
constexpr uint32_t kRawData = 9;
constexpr uint32_t kDoubleData = 10;
constexpr uint32_t kUint64Data = 11;

uint32_t data_field(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::c64:
      return kFloatData;
    case DType::f64:
    case DType::c128:
      return kDoubleData;
    case DType::i64:
      return kInt64Data;
    case DType::u32:
    case DType::u64:
      return kUint64Data;
    case DType::string:
      return kStringData;
    default:
      return kInt32Data;
  }
}

[[noreturn]] void refuse(const std::string& sentence) { throw Error(ErrorCode::invalid_model, sentence); }

struct Header {
  std::string name;
  Shape dims;
  int32_t number = 0;
  bool has_raw = false;
  bool external = false;
  std::string_view raw;
  ExternalEntries entries;
  uint32_t typed_field = 0;  // the typed data that is present
  std::string_view only;     // its bytes when it is one packed field
  size_t typed_fields = 0;   // how many fields hold it
};

Header parse_header(std::string_view message) {
  Header header;
  Fields fields(message);
  while (fields.next()) {
    switch (fields.field()) {
      case 1:
        fields.each_int64([&](int64_t dim) {
          if (header.dims.size() == kMaxRank) refuse(str("the tensor has more than ", kMaxRank, " dimensions"));
          header.dims.push_back(dim);
        });
        break;
      case 2:
        header.number = fields.int32();
        break;
      case 3:
        throw Error(ErrorCode::unsupported, "the tensor is stored in segments");
      case 8:
        header.name = fields.text();
        break;
      case kRawData:
        header.has_raw = true;
        header.raw = fields.bytes();
        break;
      case 13:
        header.entries.push_back(parse_entry(fields.bytes()));
        break;
      case 14:
        header.external = fields.int32() == 1;
        break;
      case kFloatData:
      case kInt32Data:
      case kStringData:
      case kInt64Data:
      case kDoubleData:
      case kUint64Data: {
        const uint32_t field = fields.field();
        if (!fields.is_bytes()) {
          fields.skip();
        } else {
          const std::string_view bytes = fields.bytes();
          if (bytes.empty() && field != kStringData) break;  // a writer's empty packed field holds nothing
          header.only = bytes;
        }
        if (header.typed_field != 0 && header.typed_field != field) refuse("the tensor holds data of two types");
        header.typed_field = field;
        ++header.typed_fields;
        break;
      }
      default:
        fields.skip();
    }
  }
  return header;
}

// The values of one typed field, each once, in order.
template <class Fn>
void each_value(std::string_view message, uint32_t field, Fn fn) {
  Fields fields(message);
  while (fields.next()) {
    if (fields.field() != field)
      fields.skip();
    else if (field == kFloatData)
      fields.each_float32(fn);
    else if (field == kDoubleData)
      fields.each_float64(fn);
    else
      fields.each_int64(fn);
  }
}

bool has_six_bits(DType dtype) { return dtype == DType::f6e2m3 || dtype == DType::f6e3m2; }

// Bytes in a file, where four elements of six bits take three.
size_t stored_size(DType dtype, int64_t count) {
  const size_t size = byte_size(dtype, count);
  return has_six_bits(dtype) ? size - size / 4 : size;
}

// A byte each, from a stream of bits, the lowest first.
Tensor six_bits(DType dtype, const Shape& shape, const std::byte* bytes) {
  Tensor result(dtype, shape);
  std::byte* out = result.mutable_bytes();
  for (size_t i = 0; i < result.nbytes(); ++i) {
    const size_t at = 6 * i / 8, shift = 6 * i % 8;
    auto word = std::to_integer<unsigned>(bytes[at]);
    if (shift > 2) word |= std::to_integer<unsigned>(bytes[at + 1]) << 8;
    out[i] = static_cast<std::byte>((word >> shift) & 0x3fu);
  }
  return result;
}

// A view, unless a bool holds something other than 0 and 1, or four elements lie in three bytes.
Tensor view_of(DType dtype, const Shape& shape, const std::byte* bytes, size_t size,
               const std::shared_ptr<const void>& owner) {
  if (size == 0) return Tensor(dtype, shape);
  if (has_six_bits(dtype)) return six_bits(dtype, shape, bytes);
  if (dtype != DType::boolean) return Tensor::view(dtype, shape, bytes, owner);
  if (std::all_of(bytes, bytes + size, [](std::byte b) { return b <= std::byte{1}; }))
    return Tensor::view(dtype, shape, bytes, owner);
  Tensor copy(dtype, shape);
  std::byte* out = copy.mutable_bytes();
  for (size_t i = 0; i < size; ++i) out[i] = std::byte{bytes[i] != std::byte{0}};
  return copy;
}

Tensor string_tensor(std::string_view message, const Header& header, int64_t count) {
  if (header.has_raw || header.external) refuse("a string tensor has raw or external data");
  if (header.typed_fields != static_cast<size_t>(count))
    refuse(str("a tensor of ", count, " strings holds ", header.typed_fields));
  std::vector<std::string> values;
  values.reserve(header.typed_fields);
  Fields fields(message);
  while (fields.next()) {
    if (fields.field() == kStringData)
      values.push_back(fields.text());
    else
      fields.skip();
  }
  return Tensor::of_strings(std::move(values), header.dims);
}

// Typed data to storage of its own. `slots` = how many values the field must hold.
Tensor copied(std::string_view message, const Header& header, DType dtype, size_t slots) {
  size_t held = 0;
  each_value(message, header.typed_field, [&](auto) { ++held; });
  if (held != slots)
    refuse(str("a tensor ", name(dtype), " ", header.dims, " needs ", slots, " values, but holds ", held));
  Tensor tensor(dtype, header.dims);
  if (slots == 0) return tensor;
  std::byte* out = tensor.mutable_bytes();
  const size_t width = tensor.nbytes() / slots;  // bytes a slot
  const int bits = static_cast<int>(width) * 8;
  each_value(message, header.typed_field, [&]<class T>(T value) {
    if constexpr (std::is_same_v<T, int64_t>) {
      if (dtype == DType::boolean) value = value != 0;
      // Signed and unsigned spellings of the same bits are both in use.
      if (bits < 64 && (value < -(int64_t{1} << (bits - 1)) || value >= (int64_t{1} << bits)))
        refuse(str("the value ", value, " does not fit a tensor of ", name(dtype)));
      if (has_six_bits(dtype) && (value < 0 || value > 63))
        refuse(str("the value ", value, " does not fit a tensor of ", name(dtype)));
    }
    std::memcpy(out, &value, width);  // little-endian: the low bytes
    out += width;
  });
  return tensor;
}

}  // namespace

DType dtype_of_number(int32_t number) {
  if (number == 0) refuse("the element type is undefined");
  if (number < 0 || number >= static_cast<int32_t>(kDTypes.size())) refuse(str("there is no element type ", number));
  return kDTypes[static_cast<size_t>(number)];
}

int32_t number_of_dtype(DType dtype) {
  const auto found = std::find(kDTypes.begin(), kDTypes.end(), dtype);
  return static_cast<int32_t>(found - kDTypes.begin());
}

NamedTensor parse_tensor(std::string_view message, const Source& source) {
  Header header = parse_header(message);
  return within([&] { return str("tensor \"", header.name, "\""); },
                [&] {
                  const DType dtype = dtype_of_number(header.number);
                  const int64_t count = element_count(header.dims);
                  if (dtype == DType::string) {
                    if (header.typed_field != kStringData && count != 0) refuse("a string tensor holds no strings");
                    return NamedTensor{header.name, string_tensor(message, header, count)};
                  }
                  const size_t size = stored_size(dtype, count);
                  if ((header.has_raw && !header.raw.empty()) + header.external + (header.typed_fields > 0) > 1)
                    refuse("the tensor has data of more than one kind (raw, typed, external)");
                  if (header.external) {
                    if (!source.external) refuse("the tensor's data lies in another file, which is not allowed here");
                    const ExternalData::Range range = source.external->find(header.entries, size);
                    return NamedTensor{header.name, view_of(dtype, header.dims, range.bytes, size, range.owner)};
                  }
                  if (header.typed_fields == 0) {
                    if (header.raw.size() != size)
                      refuse(str("a tensor ", name(dtype), " ", header.dims, " needs ", size, " bytes, but has ",
                                 header.raw.size()));
                    return NamedTensor{
                        header.name, view_of(dtype, header.dims, reinterpret_cast<const std::byte*>(header.raw.data()),
                                             size, source.owner)};
                  }
                  if (header.typed_field != data_field(dtype))
                    refuse(str("the data of a tensor of ", name(dtype), " is stored as another type"));
                  // Floats are stored as memory has them.
                  if ((header.typed_field == kFloatData || header.typed_field == kDoubleData) &&
                      header.typed_fields == 1 && header.only.size() == size)
                    return NamedTensor{
                        header.name, view_of(dtype, header.dims, reinterpret_cast<const std::byte*>(header.only.data()),
                                             size, source.owner)};
                  // Packed dtypes have a byte a value, complex ones two values an element.
                  size_t slots = is_packed(dtype) ? size : static_cast<size_t>(count);
                  if (is_complex(dtype)) slots *= 2;
                  return NamedTensor{header.name, copied(message, header, dtype, slots)};
                });
}

NamedTensor parse_sparse_tensor(std::string_view message, const Source& source) {
  NamedTensor values;
  Tensor indices;
  Shape dims;
  Fields fields(message);
  while (fields.next()) {
    switch (fields.field()) {
      case 1:
        values = parse_tensor(fields.bytes(), source);
        break;
      case 2:
        indices = parse_tensor(fields.bytes(), source).tensor;
        break;
      case 3:
        fields.each_int64([&](int64_t dim) {
          if (dims.size() == kMaxRank) refuse(str("the tensor has more than ", kMaxRank, " dimensions"));
          dims.push_back(dim);
        });
        break;
      default:
        fields.skip();
    }
  }
  return within(
      [&] { return str("sparse tensor \"", values.name, "\""); },
      [&] {
        if (!values.tensor || values.tensor.rank() != 1) refuse("the values are not a 1-D tensor");
        const DType dtype = values.tensor.dtype();
        const int64_t stored = values.tensor.size();
        if (dtype == DType::string || is_packed(dtype))
          throw Error(ErrorCode::unsupported, str("sparse tensors of ", name(dtype), " are not supported"));
        const int64_t rank = static_cast<int64_t>(dims.size());
        if (!indices && stored == 0) indices = Tensor(DType::i64, {0});
        if (!indices || indices.dtype() != DType::i64) refuse("the indices are not a tensor of int64");
        const bool linear = indices.rank() == 1;
        if (indices.rank() < 1 || indices.rank() > 2 || indices.dim(0) != stored || (!linear && indices.dim(1) != rank))
          refuse(str("the indices have the shape ", indices.shape(), ", which does not suit ", stored, " values in ",
                     rank, " dimensions"));
        const int64_t count = element_count(dims);
        const size_t size = byte_size(dtype, count);
        if (size > std::max(kSparseFloor, values.tensor.nbytes() * kSparseGrowth))
          throw Error(ErrorCode::unsupported, str("the sparse tensor would take ", size, " bytes"));
        Tensor dense = Tensor::zeros(dtype, dims);
        if (stored == 0) return NamedTensor{values.name, dense};
        const Tensor aligned = indices.aligned();
        const int64_t* index = aligned.data<int64_t>();
        const size_t width = static_cast<size_t>(bit_width(dtype)) / 8;
        std::byte* out = dense.mutable_bytes();
        for (int64_t i = 0; i < stored; ++i) {
          int64_t position = 0;
          if (linear) {
            position = index[i];
            if (position < 0 || position >= count) refuse(str("the index ", position, " is outside ", dims));
          } else {
            for (int64_t axis = 0; axis < rank; ++axis) {
              const int64_t at = index[i * rank + axis];
              const int64_t extent = dims[static_cast<size_t>(axis)];
              if (at < 0 || at >= extent) refuse(str("the index ", at, " is outside ", dims));
              position = position * extent + at;
            }
          }
          std::memcpy(out + static_cast<size_t>(position) * width,
                      values.tensor.bytes() + static_cast<size_t>(i) * width, width);
        }
        return NamedTensor{values.name, dense};
      });
}

Tensor as_stored(const Tensor& tensor) {
  if (!has_six_bits(tensor.dtype())) return tensor;
  Tensor packed = Tensor::zeros(DType::u8, {static_cast<int64_t>(stored_size(tensor.dtype(), tensor.size()))});
  if (tensor.size() == 0) return packed;
  const std::byte* in = tensor.bytes();
  std::byte* out = packed.mutable_bytes();
  for (size_t i = 0; i < tensor.nbytes(); ++i) {
    const size_t at = 6 * i / 8, shift = 6 * i % 8;
    const unsigned word = std::to_integer<unsigned>(in[i]) << shift;
    out[at] |= static_cast<std::byte>(word & 0xffu);
    if (shift > 2) out[at + 1] |= static_cast<std::byte>(word >> 8);
  }
  return packed;
}

std::string serialize_tensor(const Tensor& tensor, const std::string& name) {
  std::string out;
  protozero::pbf_writer writer(out);
  for (const int64_t dim : tensor.shape()) writer.add_int64(1, dim);
  writer.add_int32(2, number_of_dtype(tensor.dtype()));
  if (tensor.dtype() == DType::string) {
    for (const std::string& value : tensor.strings()) writer.add_bytes(kStringData, value);
  } else {
    const Tensor stored = as_stored(tensor);
    if (stored.nbytes() >= (size_t{1} << 31))
      throw Error(ErrorCode::unsupported, str("a protobuf tensor cannot hold ", stored.nbytes(), " bytes"));
    writer.add_bytes(kRawData, reinterpret_cast<const char*>(stored.bytes()), stored.nbytes());
  }
  if (!name.empty()) writer.add_string(8, name);
  return out;
}

}  // namespace transmuter::onnx
