// TensorProto in every spelling, sparse tensors, and files of one value.
#include "onnx/tensor_proto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/mapped_file.h"
#include "onnx/value_proto.h"
#include "onnx_messages.h"

namespace transmuter::onnx::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int32_t kFloat = 1, kUint8 = 2, kInt8 = 3, kInt32 = 6, kInt64 = 7, kString = 8, kBool = 9, kFloat16 = 10,
                  kDouble = 11, kUint32 = 12, kUint64 = 13, kComplex64 = 14, kBfloat16 = 16, kE4m3fn = 17, kUint4 = 21,
                  kInt4 = 22, kFloat4 = 23, kUint2 = 25;

struct Message {
  std::string bytes;
  explicit Message(int32_t type, const std::vector<int64_t>& dims = {}) {
    protozero::pbf_writer writer(bytes);
    for (const int64_t dim : dims) writer.add_int64(1, dim);
    writer.add_int32(2, type);
    writer.add_string(8, "t");
  }
  template <class Fn>
  Message& add(Fn fn) {
    protozero::pbf_writer writer(bytes);
    fn(writer);
    return *this;
  }
  Message& ints(uint32_t field, const std::vector<int64_t>& values) {
    return add([&](auto& w) { w.add_packed_int64(field, values.begin(), values.end()); });
  }
  Message& raw(const std::string& data) {
    return add([&](auto& w) { w.add_bytes(9, data); });
  }
};

Tensor read(const std::string& bytes) {
  const auto owner = std::make_shared<const std::string>(bytes);
  return parse_tensor(*owner, {owner, nullptr}).tensor;
}
Tensor read(const Message& message) { return read(message.bytes); }

std::string refusal(const Message& message) {
  try {
    read(message);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<int> bytes_of(const Tensor& tensor) {
  std::vector<int> result;
  for (size_t i = 0; i < tensor.nbytes(); ++i) result.push_back(std::to_integer<int>(tensor.bytes()[i]));
  return result;
}

TEST(OnnxTensor, RawDataIsAViewThatKeepsItsOwner) {
  const auto owner = std::make_shared<const std::string>(Message(kFloat, {2}).raw(floats({1, 2})).bytes);
  Tensor tensor = parse_tensor(*owner, {owner, nullptr}).tensor;
  EXPECT_GE(reinterpret_cast<const char*>(tensor.bytes()), owner->data());
  EXPECT_LT(reinterpret_cast<const char*>(tensor.bytes()), owner->data() + owner->size());
  EXPECT_EQ(owner.use_count(), 2);
  tensor = Tensor();
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(OnnxTensor, TypedData) {
  EXPECT_EQ(read(Message(kInt64, {2}).ints(7, {-5, 1LL << 40})).to_vector<int64_t>(),
            (std::vector<int64_t>{-5, 1LL << 40}));
  EXPECT_EQ(read(Message(kInt32, {2}).ints(5, {-5, 7})).to_vector<int32_t>(), (std::vector<int32_t>{-5, 7}));
  EXPECT_EQ(read(Message(kInt8, {3}).ints(5, {-128, 127, 255})).to_vector<int8_t>(),
            (std::vector<int8_t>{-128, 127, -1}));
  EXPECT_EQ(read(Message(kUint8, {1}).ints(5, {200})).to_vector<uint8_t>(), (std::vector<uint8_t>{200}));
  EXPECT_EQ(read(Message(kUint32, {1}).ints(11, {4000000000})).to_vector<uint32_t>(),
            (std::vector<uint32_t>{4000000000u}));
  EXPECT_EQ(read(Message(kUint64, {1}).ints(11, {-1})).to_vector<uint64_t>(), (std::vector<uint64_t>{UINT64_MAX}));
  EXPECT_THAT(bytes_of(read(Message(kBool, {3}).ints(5, {0, 1, 2}))), ElementsAre(0, 1, 1));
  EXPECT_THAT(bytes_of(read(Message(kFloat16, {1}).ints(5, {0x3c00}))), ElementsAre(0x00, 0x3c));
  EXPECT_THAT(bytes_of(read(Message(kBfloat16, {1}).ints(5, {0x3f80}))), ElementsAre(0x80, 0x3f));
  EXPECT_THAT(bytes_of(read(Message(kE4m3fn, {2}).ints(5, {0x38, 0xff}))), ElementsAre(0x38, 0xff));
  const std::vector<float> f = {1.5f, -2.0f};
  const auto packed_floats = [&](auto& w) { w.add_packed_float(4, f.begin(), f.end()); };
  EXPECT_EQ(read(Message(kFloat, {2}).add(packed_floats)).aligned().to_vector<float>(), f);
  EXPECT_EQ(read(Message(kComplex64, {1}).add(packed_floats)).dtype(), DType::c64);
  EXPECT_EQ(read(Message(kDouble, {1}).add([](auto& w) { w.add_double(10, 2.5); })).to_vector<double>(),
            (std::vector<double>{2.5}));
}

TEST(OnnxTensor, UnpackedAndSplitFieldsAreRead) {
  Message split(kFloat, {3});
  split.add([](auto& w) { w.add_float(4, 1.0f); });
  const std::vector<float> rest = {2, 3};
  split.add([&](auto& w) { w.add_packed_float(4, rest.begin(), rest.end()); });
  EXPECT_EQ(read(split).to_vector<float>(), (std::vector<float>{1, 2, 3}));
  Message dims(kInt64);
  dims.add([](auto& w) { w.add_int64(7, 9); });
  const std::vector<int64_t> packed_dims = {1, 1};
  dims.add([&](auto& w) { w.add_packed_int64(1, packed_dims.begin(), packed_dims.end()); });
  EXPECT_EQ(read(dims).shape(), (Shape{1, 1}));
}

TEST(OnnxTensor, PackedTypesWithOddCounts) {
  EXPECT_THAT(bytes_of(read(Message(kInt4, {3}).raw("\x78\x0f"))), ElementsAre(0x78, 0x0f));
  EXPECT_THAT(bytes_of(read(Message(kInt4, {3}).ints(5, {0x78, 0x0f}))), ElementsAre(0x78, 0x0f));
  EXPECT_EQ(read(Message(kInt4, {3}).raw("\x78\x0f")).cast(DType::i32).to_vector<int32_t>(),
            (std::vector<int32_t>{-8, 7, -1}));
  EXPECT_EQ(read(Message(kUint4, {3}).ints(5, {0x0f, 0x09})).cast(DType::i32).to_vector<int32_t>(),
            (std::vector<int32_t>{15, 0, 9}));
  EXPECT_EQ(read(Message(kUint2, {5}).raw("\xe4\x01")).cast(DType::i32).to_vector<int32_t>(),
            (std::vector<int32_t>{0, 1, 2, 3, 1}));
  EXPECT_EQ(read(Message(kFloat4, {2}).ints(5, {0x2f})).cast(DType::f32).to_vector<float>(),
            (std::vector<float>{-6, 1}));
  EXPECT_THAT(refusal(Message(kInt4, {3}).raw("\x78")), HasSubstr("needs 2 bytes"));
}

TEST(OnnxTensor, StringsScalarsAndEmpties) {
  const auto strings = [](auto& w) {
    w.add_bytes(6, "");
    w.add_bytes(6, std::string("a\0b", 3));
  };
  EXPECT_THAT(read(Message(kString, {2}).add(strings)).strings(), ElementsAre("", std::string("a\0b", 3)));
  EXPECT_THAT(refusal(Message(kString, {3}).add(strings)), HasSubstr("3 strings holds 2"));
  EXPECT_EQ(read(Message(kString, {0})).shape(), (Shape{0}));
  EXPECT_EQ(read(Message(kFloat, {2, 0})).shape(), (Shape{2, 0}));
  EXPECT_EQ(read(Message(kInt64).ints(7, {3})).shape(), Shape{});
}

TEST(OnnxTensor, RawBoolsBecomeZeroOrOne) {
  EXPECT_THAT(bytes_of(read(Message(kBool, {3}).raw(std::string("\0\1\x80", 3)))), ElementsAre(0, 1, 1));
}

TEST(OnnxTensor, FaultsAreRefusedBeforeAllocating) {
  EXPECT_THAT(refusal(Message(kFloat, {1LL << 40}).raw("abcd")), HasSubstr("needs 4398046511104 bytes, but has 4"));
  EXPECT_THAT(refusal(Message(kFloat, {1LL << 40}).ints(4, {})), HasSubstr("needs"));
  EXPECT_THAT(refusal(Message(kInt32, {1LL << 40}).ints(5, {1})), HasSubstr("values, but holds 1"));
  EXPECT_THAT(refusal(Message(kString, {1LL << 40})), HasSubstr("no strings"));
  EXPECT_NE(refusal(Message(kFloat, {1LL << 62, 4})), "");
  EXPECT_NE(refusal(Message(kFloat, {1LL << 62})), "");
  EXPECT_NE(refusal(Message(kFloat, {-1}).raw("")), "");
  EXPECT_THAT(refusal(Message(kFloat, {1}).raw("abcde")), HasSubstr("has 5"));
  EXPECT_THAT(refusal(Message(0, {1}).raw("a")), HasSubstr("undefined"));
  EXPECT_THAT(refusal(Message(99, {1}).raw("a")), HasSubstr("no element type 99"));
  EXPECT_THAT(refusal(Message(kInt8, {1}).ints(5, {300})), HasSubstr("300 does not fit"));
  EXPECT_THAT(refusal(Message(kInt32, {1}).raw("abcd").ints(5, {1})), HasSubstr("more than one kind"));
  EXPECT_THAT(refusal(Message(kInt32, {1}).ints(7, {1})), HasSubstr("stored as another type"));
  EXPECT_THAT(refusal(Message(kInt32, {1}).ints(5, {1}).ints(7, {1})), HasSubstr("two types"));
  EXPECT_THAT(refusal(Message(kFloat, std::vector<int64_t>(100, 1)).raw("abcd")), HasSubstr("dimensions"));
}

std::string sparse(const std::string& values, const std::string& indices, const std::vector<int64_t>& dims) {
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_message(1, values);
  writer.add_message(2, indices);
  for (const int64_t dim : dims) writer.add_int64(3, dim);
  return out;
}
std::string sparse_refusal(const std::string& message) {
  try {
    parse_sparse_tensor(message, {nullptr, nullptr});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(OnnxTensor, SparseTensorsArriveDense) {
  const std::string values = Message(kFloat, {2}).raw(floats({5, 6})).bytes;
  const NamedTensor linear =
      parse_sparse_tensor(sparse(values, Message(kInt64, {2}).ints(7, {1, 3}).bytes, {2, 2}), {nullptr, nullptr});
  EXPECT_EQ(linear.name, "t");
  EXPECT_EQ(linear.tensor.to_vector<float>(), (std::vector<float>{0, 5, 0, 6}));
  const NamedTensor pairs = parse_sparse_tensor(
      sparse(values, Message(kInt64, {2, 2}).ints(7, {0, 1, 1, 0}).bytes, {2, 2}), {nullptr, nullptr});
  EXPECT_EQ(pairs.tensor.to_vector<float>(), (std::vector<float>{0, 5, 6, 0}));
  EXPECT_THAT(sparse_refusal(sparse(values, Message(kInt64, {2}).ints(7, {1, 4}).bytes, {2, 2})), HasSubstr("outside"));
  EXPECT_THAT(sparse_refusal(sparse(values, Message(kInt64, {2}).ints(7, {1, -1}).bytes, {2, 2})),
              HasSubstr("outside"));
  EXPECT_THAT(sparse_refusal(sparse(values, Message(kInt64, {1}).ints(7, {1}).bytes, {2, 2})), HasSubstr("suit"));
  EXPECT_THAT(sparse_refusal(sparse(values, Message(kInt64, {2}).ints(7, {1, 2}).bytes, {1LL << 40})),
              HasSubstr("would take"));
}

TEST(OnnxValue, FilesOfTensorsReadBack) {
  const std::string path = (std::filesystem::path(::testing::TempDir()) / "tensor.pb").string();
  const Tensor tensor(std::vector<float>{1, 2, 3}, {3, 1});
  write_tensor_file(path, tensor, "x");
  EXPECT_EQ(read_value_name(path), "x");
  EXPECT_EQ(read_tensor_file(path).shape(), tensor.shape());
  EXPECT_EQ(read_tensor_file(path).aligned().to_vector<float>(), tensor.to_vector<float>());
  write_tensor_file(path, Tensor::of_strings({"a", ""}, {2}));
  EXPECT_EQ(read_value_name(path), "");
  EXPECT_THAT(read_tensor_file(path).strings(), ElementsAre("a", ""));
}

ValueInfo of_kind(ValueInfo::Kind kind) {
  ValueInfo info;
  info.kind = kind;
  auto element = std::make_shared<ValueInfo>();
  element->kind = ValueInfo::Kind::tensor;
  element->dtype = DType::f32;
  if (kind != ValueInfo::Kind::tensor) info.element = element;
  return info;
}

TEST(OnnxValue, SequencesOptionalsAndMaps) {
  const std::string item = Message(kFloat, {1}).raw(floats({7})).bytes;
  std::string sequence;
  protozero::pbf_writer writer(sequence);
  writer.add_string(1, "seq");
  writer.add_int32(2, 1);
  writer.add_message(3, item);
  writer.add_message(3, item);
  const Value read_sequence = parse_value(sequence, of_kind(ValueInfo::Kind::sequence));
  ASSERT_EQ(read_sequence.items.size(), 2u);
  EXPECT_EQ(read_sequence.element, DType::f32);
  const std::string path = (std::filesystem::path(::testing::TempDir()) / "sequence.pb").string();
  write_file(path, sequence);
  EXPECT_EQ(read_value_name(path), "seq");
  EXPECT_EQ(parse_value("", of_kind(ValueInfo::Kind::sequence)).element, DType::f32);

  std::string optional;
  protozero::pbf_writer optional_writer(optional);
  optional_writer.add_int32(2, 3);
  optional_writer.add_message(5, sequence);
  EXPECT_EQ(parse_value(optional, of_kind(ValueInfo::Kind::optional)).items.at(0).items.size(), 2u);
  EXPECT_TRUE(parse_value("", of_kind(ValueInfo::Kind::optional)).items.empty());

  std::string map;
  protozero::pbf_writer map_writer(map);
  map_writer.add_int32(2, kInt64);
  const std::vector<int64_t> keys = {4, 2};
  map_writer.add_packed_int64(3, keys.begin(), keys.end());
  map_writer.add_message(5, sequence);
  const Value read_map = parse_value(map, of_kind(ValueInfo::Kind::map));
  EXPECT_EQ(read_map.keys.to_vector<int64_t>(), keys);
  EXPECT_EQ(read_map.tensor.to_vector<float>(), (std::vector<float>{7, 7}));
  EXPECT_THROW(parse_value("\xff", of_kind(ValueInfo::Kind::map)), Error);
  EXPECT_THROW(parse_value(item, ValueInfo{}), Error);
}

}  // namespace
}  // namespace transmuter::onnx::testing
