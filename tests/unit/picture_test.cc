// Pictures in and out, and other sizes against Pillow's (scripts/make_media_references.py).
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "errors.h"
#include "temporary_folder.h"
#include "tensor/npy.h"
#include "transmuter/image.h"

namespace transmuter {
namespace {

const std::string kData = std::string(TRANSMUTER_TEST_DATA) + "/media/";

TEST(Picture, OtherSizesAreThoseOfPillow) {
  const Tensor picture = read_image(kData + "picture.png");
  EXPECT_EQ(picture.shape(), (Shape{37, 53, 3}));
  for (const auto& [height, width] : std::vector<std::pair<int64_t, int64_t>>{{16, 20}, {60, 90}, {80, 11}}) {
    const std::string name = "picture_" + std::to_string(height) + "x" + std::to_string(width) + ".npy";
    EXPECT_EQ(resize_image(picture, height, width).to_vector<uint8_t>(), read_npy(kData + name).to_vector<uint8_t>())
        << name;
  }
  EXPECT_EQ(resize_image(picture, 37, 53).to_vector<uint8_t>(), picture.to_vector<uint8_t>());
}

TEST(Picture, PngGoesRound) {
  const TemporaryFolder folder;
  const std::string path = (folder / "picture.png").string();
  const Tensor picture = read_image(kData + "picture.png");
  write_png(path, picture);
  EXPECT_EQ(read_image(path).to_vector<uint8_t>(), picture.to_vector<uint8_t>());
  // Grey becomes three equal channels, alpha is dropped.
  write_png(path, Tensor(std::vector<uint8_t>{0, 128}, {1, 2, 1}));
  EXPECT_EQ(read_image(path).to_vector<uint8_t>(), (std::vector<uint8_t>{0, 0, 0, 128, 128, 128}));
  write_png(path, Tensor(std::vector<uint8_t>{1, 2, 3, 4}, {1, 1, 4}));
  EXPECT_EQ(read_image(path).to_vector<uint8_t>(), (std::vector<uint8_t>{1, 2, 3}));
}

TEST(Picture, BrokenFilesAreClearErrors) {
  EXPECT_THAT(error_of([] { read_image(kData + "nothing.png"); }), testing::HasSubstr("nothing.png"));
  EXPECT_THAT(error_of([] { read_image(kData + "chirp.wav"); }),
              testing::AllOf(testing::HasSubstr("no picture"), testing::HasSubstr("chirp.wav")));
  std::ifstream file(kData + "picture.png", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  for (const size_t size : {size_t{0}, size_t{20}, bytes.size() / 2})
    EXPECT_THAT(error_of([&] { decode_image(std::as_bytes(std::span(bytes.data(), size))); }),
                testing::HasSubstr("no picture of a known format, or a damaged one"));
}

TEST(Picture, WrongTensorsAndSizesAreRefused) {
  const Tensor picture = Tensor::zeros(DType::u8, {2, 2, 3});
  EXPECT_THAT(error_of([&] { resize_image(picture, 0, 4); }), testing::HasSubstr("0 x 4"));
  EXPECT_THAT(error_of([] {
                resize_image(Tensor::zeros(DType::f32, {2, 2, 3}), 4, 4);
              }),
              testing::HasSubstr("float32"));
  EXPECT_THAT(error_of([] { write_png("x.png", Tensor::zeros(DType::u8, {2, 2, 2})); }), testing::HasSubstr("not 2"));
  EXPECT_THAT(error_of([&] { write_png("/no/such/folder/x.png", picture); }), testing::HasSubstr("/no/such/folder"));
}

}  // namespace
}  // namespace transmuter
