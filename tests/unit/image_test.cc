#include <gtest/gtest.h>

#include <string>

#include "errors.h"
#include "image/decode.h"

namespace transmuter::image {
namespace {

std::optional<Image> of(const std::string& file) {
  return decode(std::span(reinterpret_cast<const uint8_t*>(file.data()), file.size()));
}

using Pixels = std::vector<uint8_t>;

TEST(Image, PortableTextWithComments) {
  const auto image = of("P3 # made by hand\n2 1 15\n0 15 3  1 2 15\n");
  ASSERT_TRUE(image);
  EXPECT_EQ(image->channels, 3);
  EXPECT_EQ(image->pixels, (Pixels{0, 255, 51, 17, 34, 255}));
  const auto bits = of("P1 3 2\n10 1 0 10");  // 1 is black; digits need no blanks
  ASSERT_TRUE(bits);
  EXPECT_EQ(bits->pixels, (Pixels{0, 255, 0, 255, 0, 255}));
}

TEST(Image, PortableBinary) {
  const auto grey = of(std::string("P5 2 1 65535 \x80\x00\xff\xff", 18));
  ASSERT_TRUE(grey);
  EXPECT_EQ(grey->pixels, (Pixels{128, 255}));
  const auto bits = of(std::string("P4 9 1\n\xa0\x80", 9));
  ASSERT_TRUE(bits);
  EXPECT_EQ(bits->pixels, (Pixels{0, 255, 0, 255, 255, 255, 255, 255, 0}));
  EXPECT_FALSE(of("P6 2 2 255\nabc"));        // ends early
  EXPECT_FALSE(of("P6 2 0 255\nabc"));        // no rows
  EXPECT_FALSE(of("P5 1 1 70000\nab"));       // no such maximum
  EXPECT_FALSE(of("P2 100000 100000 9\n1"));  // rows that aren't there
}

// A header of 40 bytes and a palette of grey steps of 16.
std::string bitmap(int32_t width, int32_t height, uint16_t bits, uint32_t compression, const std::string& body) {
  std::string file = "BM";
  const auto put = [&](uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) file += static_cast<char>(value >> (8 * i) & 255);
  };
  put(0, 4), put(0, 4), put(54 + 16 * 4, 4), put(40, 4);
  put(static_cast<uint32_t>(width), 4), put(static_cast<uint32_t>(height), 4), put(1, 2), put(bits, 2);
  put(compression, 4), put(0, 4), put(0, 4), put(0, 4), put(16, 4), put(0, 4);
  for (uint32_t i = 0; i < 16; ++i) put(i * 0x101010, 4);
  return file + body;
}

TEST(Image, BitmapRowsFromBelow) {
  const std::string rows("\x12\x30\x00\x00\x45\x60\x00\x00", 8);
  const auto up = of(bitmap(3, 2, 4, 0, rows)), down = of(bitmap(3, -2, 4, 0, rows));
  ASSERT_TRUE(up && down);
  EXPECT_EQ(up->pixels, (Pixels{64, 80, 96, 16, 32, 48}));
  EXPECT_EQ(down->pixels, (Pixels{16, 32, 48, 64, 80, 96}));
}

TEST(Image, BitmapRunLengths) {
  // Three of 1, end of line; a move of one; two as they are (padded to even), end of picture.
  const auto image = of(bitmap(3, 2, 8, 1, std::string("\x03\x01\x00\x00\x00\x02\x01\x00\x02\x05\x00\x01", 12)));
  ASSERT_TRUE(image);
  EXPECT_EQ(image->pixels, (Pixels{0, 80, 80, 16, 16, 16}));
  const auto four = of(bitmap(5, 1, 4, 2, std::string("\x05\x12\x00\x01", 4)));
  ASSERT_TRUE(four);
  EXPECT_EQ(four->pixels, (Pixels{16, 32, 16, 32, 16}));
  EXPECT_FALSE(of(bitmap(3, 1, 8, 1, std::string("\x04\x01\x00\x01", 4))));  // a run over the edge
  EXPECT_FALSE(of(bitmap(3, 2, 8, 1, std::string("\x03\x01", 2))));          // ends early
}

TEST(Image, BitmapFields) {
  std::string file = bitmap(2, 1, 16, 3, "");
  file.resize(54);
  for (const uint32_t mask : {0xf800u, 0x07e0u, 0x001fu})
    for (int i = 0; i < 4; ++i) file += static_cast<char>(mask >> (8 * i) & 255);
  file[10] = 66;
  file += std::string("\x00\xf8\xe0\x07", 4);
  const auto image = of(file);
  ASSERT_TRUE(image);
  EXPECT_EQ(image->pixels, (Pixels{255, 0, 0, 0, 255, 0}));
}

TEST(Image, NoPicture) {
  EXPECT_FALSE(of(""));
  EXPECT_FALSE(of("GIF89a"));
  for (const char* start : {"BM", "P6", "\xff\xd8\xff\xe0", "\x89PNG\r\n\x1a\n", "RIFF\x10\x20\x30\x40WEBPVP8 "}) {
    try {
      EXPECT_FALSE(of(start)) << start;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);  // a build without the library
    }
  }
}

TEST(Image, NothingIsAllocatedForAbsurdSizes) {
  // Runs that end at once: legal, but more pixels than any picture has.
  const std::string text = error_of([] { of(bitmap(2000000, 2000000, 8, 1, std::string("\x00\x01", 2))); });
  EXPECT_EQ(text, "a picture of 2000000 by 2000000 pixels; more than 268435456 are not decoded");
}

}  // namespace
}  // namespace transmuter::image
