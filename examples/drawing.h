// What the examples that look at pictures share: a picture for a network, and boxes drawn on it.
#pragma once

#include <transmuter/transmuter.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

struct Box {
  double left, top, right, bottom;  // pixels
};

// f32 [1, 3, height, width] of a picture at that size: value * scale + shift; `blue_first` turns the colours round.
inline transmuter::Tensor network_input(const transmuter::Tensor& picture, int64_t height, int64_t width, float scale,
                                        float shift, bool blue_first) {
  const transmuter::Tensor sized = transmuter::resize_image(picture, height, width);
  const uint8_t* pixels = sized.data<uint8_t>();
  std::vector<float> values(static_cast<size_t>(3 * height * width));
  float* to = values.data();
  for (int64_t channel = 0; channel < 3; ++channel)
    for (int64_t i = 0; i < height * width; ++i)
      *to++ = pixels[i * 3 + (blue_first ? 2 - channel : channel)] * scale + shift;
  return transmuter::Tensor(values, {1, 3, height, width});
}

// The part of a picture inside a box.
inline transmuter::Tensor cut_out(const transmuter::Tensor& picture, const Box& box) {
  const int64_t top = static_cast<int64_t>(box.top), left = static_cast<int64_t>(box.left),
                height = static_cast<int64_t>(box.bottom) - top, width = static_cast<int64_t>(box.right) - left;
  std::vector<uint8_t> pixels;
  for (int64_t y = top; y < top + height; ++y) {
    const uint8_t* row = picture.data<uint8_t>() + (y * picture.dim(1) + left) * 3;
    pixels.insert(pixels.end(), row, row + width * 3);
  }
  return transmuter::Tensor(pixels, {height, width, 3});
}

// The picture with two pixels wide red frames round the boxes.
inline void write_with_boxes(const std::string& path, const transmuter::Tensor& picture,
                             const std::vector<Box>& boxes) {
  constexpr std::array<uint8_t, 3> kRed{230, 30, 30};
  transmuter::Tensor drawn = picture.clone();
  const int64_t height = drawn.dim(0), width = drawn.dim(1);
  uint8_t* pixels = drawn.mutable_data<uint8_t>();
  const auto dot = [&](int64_t y, int64_t x) {
    if (y >= 0 && y < height && x >= 0 && x < width) std::copy(kRed.begin(), kRed.end(), pixels + (y * width + x) * 3);
  };
  for (const Box& box : boxes) {
    const int64_t left = std::lround(box.left), top = std::lround(box.top), right = std::lround(box.right),
                  bottom = std::lround(box.bottom);
    for (int64_t thick = 0; thick < 2; ++thick) {
      for (int64_t x = left; x <= right; ++x) dot(top + thick, x), dot(bottom - thick, x);
      for (int64_t y = top; y <= bottom; ++y) dot(y, left + thick), dot(y, right - thick);
    }
  }
  transmuter::write_png(path, drawn);
}
