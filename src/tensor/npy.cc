#include "tensor/npy.h"

#include <array>
#include <charconv>
#include <cstring>

#include "base/mapped_file.h"
#include "base/strings.h"
#include "tensor/packed.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxRank = 64;

struct Descr {
  DType dtype;
  std::string_view text;
};
constexpr std::array<Descr, 14> kDescrs = {{{DType::boolean, "|b1"},
                                            {DType::i8, "|i1"},
                                            {DType::u8, "|u1"},
                                            {DType::i16, "<i2"},
                                            {DType::u16, "<u2"},
                                            {DType::i32, "<i4"},
                                            {DType::u32, "<u4"},
                                            {DType::i64, "<i8"},
                                            {DType::u64, "<u8"},
                                            {DType::f16, "<f2"},
                                            {DType::f32, "<f4"},
                                            {DType::f64, "<f8"},
                                            {DType::c64, "<c8"},
                                            {DType::c128, "<c16"}}};

[[noreturn]] void refuse(const std::string& sentence) { throw Error(ErrorCode::invalid_input, sentence); }

DType dtype_of_descr(std::string_view text) {
  for (const Descr& descr : kDescrs) {
    // A byte has no order: "<i1" and "=i1" are "|i1".
    const bool any_order = bit_width(descr.dtype) == 8 || text.empty() || text[0] != '>';
    if (any_order && !text.empty() && text.substr(1) == descr.text.substr(1)) return descr.dtype;
  }
  refuse(str("the .npy element type '", text, "' is not supported"));
}

// The header: a Python dict literal with three known keys, in any order.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  std::string_view descr;
  bool fortran = false;
  Shape shape;

  void parse() {
    bool has_descr = false;
    bool has_order = false;
    bool has_shape = false;
    take('{');
    while (!try_take('}')) {
      const std::string_view key = quoted();
      take(':');
      if (key == "descr") {
        descr = quoted();
        has_descr = true;
      } else if (key == "fortran_order") {
        fortran = boolean();
        has_order = true;
      } else if (key == "shape") {
        shape = tuple();
        has_shape = true;
      } else {
        refuse(str("the .npy header has the unknown key '", key, "'"));
      }
      if (!try_take(',')) {
        take('}');
        break;
      }
    }
    if (!has_descr || !has_order || !has_shape) refuse("the .npy header lacks descr, fortran_order or shape");
  }

 private:
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool try_take(char c) {
    blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void take(char c) {
    if (!try_take(c)) refuse(str("the .npy header is malformed: '", c, "' is missing"));
  }
  std::string_view quoted() {
    blanks();
    // A list instead of a string: the dtype of a record.
    if (at_ < text_.size() && text_[at_] == '[') refuse("arrays of records are not supported");
    const char quote = at_ < text_.size() && text_[at_] == '"' ? '"' : '\'';
    take(quote);
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) refuse("the .npy header is malformed: a string does not end");
    const std::string_view result = text_.substr(at_, end - at_);
    at_ = end + 1;
    return result;
  }
  bool boolean() {
    blanks();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return word == "True";
    }
    refuse("the .npy header is malformed: fortran_order is not True or False");
  }
  Shape tuple() {
    Shape result;
    take('(');
    while (!try_take(')')) {
      blanks();
      int64_t extent = 0;
      const char* first = text_.data() + at_;
      const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), extent);
      if (error != std::errc() || extent < 0) refuse("the .npy header is malformed: an extent is no number");
      if (result.size() == kMaxRank) refuse(str("the array has more than ", kMaxRank, " dimensions"));
      at_ += static_cast<size_t>(end - first);
      result.push_back(extent);
      if (try_take(',')) continue;
      take(')');
      break;
    }
    return result;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// From Fortran order, the first axis fastest.
void transpose_copy(const char* from, const Shape& shape, size_t width, std::byte* to) {
  const int64_t count = element_count(shape);
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  std::vector<int64_t> index(shape.size(), 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + static_cast<size_t>(i) * width, from + static_cast<size_t>(offset) * width, width);
    for (size_t axis = shape.size(); axis-- > 0;) {
      offset += strides[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

template <class Body>
decltype(auto) in_file(const std::string& path, Body body) {
  try {
    return body();
  } catch (Error& error) {
    error.in(str("file ", path));
    throw;
  }
}

Tensor numpy_typed(const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  if (dtype == DType::string || dtype == DType::invalid)
    throw Error(ErrorCode::unsupported, "strings cannot be written to a .npy file");
  if (is_packed(dtype) && dtype != DType::f4e2m1) return unpack(tensor);
  if (is_float(dtype) && dtype != DType::f16 && dtype != DType::f32 && dtype != DType::f64)
    return tensor.cast(DType::f32);
  return tensor;
}

}  // namespace

Tensor parse_npy(std::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic || bytes.size() < 10) refuse("this is not a .npy file");
  const auto byte_at = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
  const size_t version = byte_at(6);
  if (version < 1 || version > 3) refuse(str("the .npy format version ", version, " is not known"));
  size_t start = 10;
  size_t length = byte_at(8) | byte_at(9) << 8;
  if (version > 1) {
    start = 12;
    if (bytes.size() < start) refuse("the .npy file ends in its header");
    length |= byte_at(10) << 16 | byte_at(11) << 24;
  }
  if (length > bytes.size() - start) refuse("the .npy file ends in its header");
  HeaderParser header(bytes.substr(start, length));
  header.parse();
  const DType dtype = dtype_of_descr(header.descr);
  const size_t size = byte_size(dtype, element_count(header.shape));
  const std::string_view data = bytes.substr(start + length);
  if (data.size() != size)
    refuse(str("an array ", name(dtype), " ", header.shape, " needs ", size, " bytes, but the file has ", data.size()));
  Tensor tensor(dtype, header.shape);
  if (size == 0) return tensor;
  std::byte* out = tensor.mutable_bytes();
  if (header.fortran && header.shape.size() > 1)
    transpose_copy(data.data(), header.shape, static_cast<size_t>(bit_width(dtype)) / 8, out);
  else
    std::memcpy(out, data.data(), size);
  if (dtype == DType::boolean)
    for (size_t i = 0; i < size; ++i) out[i] = std::byte{out[i] != std::byte{0}};
  return tensor;
}

Tensor read_npy(const std::string& path) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);  // names the file itself where it fails
  return in_file(path, [&] { return parse_npy(file->view()); });
}

std::string serialize_npy(const Tensor& tensor) {
  const Tensor typed = numpy_typed(tensor);
  std::string header = "{'descr': '";
  for (const Descr& descr : kDescrs)
    if (descr.dtype == typed.dtype()) header += descr.text;
  header += "', 'fortran_order': False, 'shape': (";
  for (int64_t axis = 0; axis < typed.rank(); ++axis) header += str(typed.dim(axis), typed.rank() == 1 ? "," : ", ");
  header += "), }";
  // The data starts at a multiple of 64 bytes.
  constexpr size_t kPrefix = 10;
  header.resize((kPrefix + header.size()) / 64 * 64 + 64 - kPrefix, ' ');
  header.back() = '\n';
  std::string out(kMagic);
  out += {'\x01', '\x00', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  out += header;
  out.append(reinterpret_cast<const char*>(typed.bytes()), typed.nbytes());
  return out;
}

void write_npy(const std::string& path, const Tensor& tensor) {
  in_file(path, [&] { write_file(path, serialize_npy(tensor)); });
}

}  // namespace transmuter
