// The windows of a convolution as rows of a matrix, for images of bytes with the channels last.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/rounding.h"

namespace transmuter::cpu {

struct BytePatches {
  Windows windows;  // up to two spatial axes
  int64_t images = 1, channels = 1;
  uint8_t outside = 0;  // what padding is

  // A window is runs of bytes that lie side by side in the image: kernel rows, or taps where these are apart. In a row
  // of the matrix each is filled up to a multiple of four bytes, and so it must be in the other operand, with zeros.
  bool rows_run() const { return windows.dilation[2] == 1; }
  int64_t run() const { return channels * (rows_run() ? windows.kernel[2] : 1); }
  int64_t filled_run() const { return round_up(run(), 4); }
  int64_t runs() const { return windows.kernel[1] * (rows_run() ? 1 : windows.kernel[2]); }
  int64_t depth() const { return runs() * filled_run(); }
};

// Row `index` of [images * out pixels, depth]; x [images, rows, pixels, channels] is dense.
void byte_patch(const BytePatches& patches, const uint8_t* x, int64_t index, uint8_t* out);

// Distances in bytes by which all windows are found without being copied: in the images themselves where no window
// reaches outside and no run is filled up, else in a copy of them with a frame of padding.
struct PatchPlaces {
  int64_t rows = 0, pixels = 0;  // of one image of the copy
  int64_t image_bytes, row_bytes;
  int64_t first = 0;  // of the first window

  // Of a window and of a run inside of any.
  int64_t window(const BytePatches& patches, int64_t index) const;
  int64_t run(const BytePatches& patches, int64_t index) const;
};
bool lies_in_images(const BytePatches& patches);
PatchPlaces places_in_images(const BytePatches& patches);
PatchPlaces places_in_frame(const BytePatches& patches);

// Bytes of the copy; runs may be read to their filled length.
int64_t frame_bytes(const BytePatches& patches);
// Row `index` of [images * rows] of the copy, each byte xored with `flip`.
void frame_row(const BytePatches& patches, const PatchPlaces& frame, const uint8_t* x, int64_t index, uint8_t flip,
               uint8_t* copy);

}  // namespace transmuter::cpu
