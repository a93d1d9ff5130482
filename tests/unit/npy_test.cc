#include "tensor/npy.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "transmuter/error.h"

namespace transmuter {
namespace {

std::string npy(std::string header, const std::string& data, int version = 1) {
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  header += '\n';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) out += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return out + header + data;
}

std::string bytes_of(const std::vector<int16_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * 2};
}

TEST(Npy, ReadsCAndFortranOrder) {
  const std::string data = bytes_of({1, 2, 3, 4, 5, 6});
  const Tensor c = parse_npy(npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }", data));
  EXPECT_EQ(c.shape(), (Shape{2, 3}));
  EXPECT_EQ(c.to_vector<int16_t>(), (std::vector<int16_t>{1, 2, 3, 4, 5, 6}));
  const Tensor f = parse_npy(npy("{'shape': (2, 3), 'fortran_order': True, 'descr': '<i2'}", data, 2));
  EXPECT_EQ(f.to_vector<int16_t>(), (std::vector<int16_t>{1, 3, 5, 2, 4, 6}));
}

TEST(Npy, FortranOrderOfThreeAxes) {
  // Element (i, j, k) of shape (2, 2, 2) lies at i + 2j + 4k.
  const Tensor f = parse_npy(
      npy("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 2, 2), }", bytes_of({0, 1, 2, 3, 4, 5, 6, 7})));
  EXPECT_EQ(f.to_vector<int16_t>(), (std::vector<int16_t>{0, 4, 2, 6, 1, 5, 3, 7}));
}

TEST(Npy, ScalarsAndEmptyArrays) {
  EXPECT_EQ(parse_npy(npy("{'descr': '<i2', 'fortran_order': False, 'shape': (), }", bytes_of({7}))).shape(), Shape{});
  const Tensor empty = parse_npy(npy("{'descr': '<c16', 'fortran_order': True, 'shape': (3, 0), }", ""));
  EXPECT_EQ(empty.shape(), (Shape{3, 0}));
  EXPECT_EQ(empty.dtype(), DType::c128);
}

TEST(Npy, BoolsAreZeroOrOne) {
  const Tensor t =
      parse_npy(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", std::string("\0\1\7", 3)));
  EXPECT_EQ(t.bytes()[2], std::byte{1});
}

TEST(Npy, WhatIsWrittenReadsBack) {
  const std::string path = (std::filesystem::path(testing::TempDir()) / "back.npy").string();
  for (const Shape& shape : {Shape{}, Shape{6}, Shape{2, 3}, Shape{0, 3}}) {
    const size_t count = static_cast<size_t>(element_count(shape));
    std::vector<double> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = 0.5 * static_cast<double>(i);
    write_npy(path, Tensor(values, shape));
    const Tensor back = read_npy(path);
    EXPECT_EQ(back.shape(), shape);
    EXPECT_EQ(back.to_vector<double>(), values);
  }
  EXPECT_EQ(serialize_npy(Tensor::scalar(1.0f)).size(), 128u + 4u);
}

TEST(Npy, TypesThatNumpyLacksAreWidened) {
  const Tensor half = Tensor(std::vector<float>{1.5f, -2.0f}, {2}).cast(DType::bf16);
  const Tensor back = parse_npy(serialize_npy(half));
  EXPECT_EQ(back.to_vector<float>(), (std::vector<float>{1.5f, -2.0f}));
  const Tensor small = Tensor(std::vector<int8_t>{-8, 7, -1}, {3}).cast(DType::i4);
  EXPECT_EQ(parse_npy(serialize_npy(small)).to_vector<int8_t>(), (std::vector<int8_t>{-8, 7, -1}));
}

TEST(Npy, RefusesWhatItCannotRead) {
  const std::string ok = npy("{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }", bytes_of({1, 2, 3}));
  for (size_t length = 0; length < ok.size(); ++length)
    EXPECT_THROW(parse_npy(std::string_view(ok).substr(0, length)), Error) << length;
  const std::string four(4, '\0');
  for (const char* header :
       {"{'descr': '>i4', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<V4', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<i4', 'fortran_order': 0, 'shape': (1,), }", "{'descr': '<i4', 'shape': (1,), }",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (1,",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", "{'descr': '', 'x", ""})
    EXPECT_THROW(parse_npy(npy(header, four)), Error) << header;
  EXPECT_THROW(serialize_npy(Tensor::of_strings({"a"}, {1})), Error);
  EXPECT_THROW(read_npy("/nonexistent/file.npy"), Error);
}

}  // namespace
}  // namespace transmuter
