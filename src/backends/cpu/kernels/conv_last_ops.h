// What one instruction set contributes to convolution channels last.
#pragma once

#include <cstdint>

namespace transmuter::cpu {

inline constexpr int64_t kMaxTilePixels = 14;

// y[pixel, channel] = sum over segments s and i < length of rows[s][pixel][i] * (b + steps[s])[i][channel], for a tile
// of pixels and one or two vectors of channels.
struct LastTile {
  const float* const* rows;  // [segments, pixels of the tile]
  const int64_t* steps;      // [segments]: from b, in floats
  int64_t segments, length;
  const float* b;  // rows of the tile's vectors
  float* y;
  int64_t y_pixel;
  const float* bias;      // whole vectors; null: none
  const float* residual;  // lies as y does; null: none
  int64_t columns;        // channels that are stored: at most the vectors', more than all but the last
  // Tiles that follow, with the same segments: pixels so much farther on, results after each other.
  int64_t repeat, rows_step;
  int64_t ahead;    // of each pixel's place: what the next tile reads is fetched from there; 0: it isn't
  bool accumulate;  // on what y holds, which has the bias
  bool clamp;
  float low, high;  // min(max(y, low), high), NaN passing
};

// One row of depthwise windows: y[p, c] = sum over rows h and columns w of at[h][p * stride + w][c] * weights[h][w][c].
struct DepthwiseLast {
  const float* const* at;  // [rows][columns of the tile]
  int64_t rows;            // of the window that are inside the image
  const float* weights;    // of the first of those rows, [rows, kernel, channels]
  const float* bias;       // or null
  int64_t channels;
  float* y;
  int64_t y_pixel;
  float low, high;
};

// 2x2 pixels from the 16 sums of Winograd's F(2x2, 3x3).
struct WinogradOut {
  const float* in;  // the tile's row of the first of 16 matrices
  int64_t matrix;   // floats from one to the next
  int64_t channels;
  const float* bias;         // or null
  const float* residual[4];  // all null: none
  float* y[4];               // pixels outside the image go to memory that nothing reads
  bool clamp;
  float low, high;
};

struct LastOps {
  int64_t tile_pixels;  // the most of a tile
  int64_t lanes;
  using Tile = void (*)(const LastTile& tile);
  const Tile* tiles;         // [pixels - 1], two vectors of channels
  const Tile* narrow_tiles;  // one

  // By width of the window (3, 5, 7), stride along it (1, 2) and pixels.
  using Depthwise = void (*)(const DepthwiseLast& row);
  static constexpr int kDepthwisePixels[] = {8, 7, 4, 1};
  Depthwise depthwise[3][2][4];

  // The 16 transforms of 4x4 pixels, each into its row of a matrix, `matrix` floats apart; whole vectors are written.
  void (*winograd_in)(const float* const* at, int64_t channels, float* out, int64_t matrix);
  void (*winograd_out)(const WinogradOut& tile);

  // out[c] = sum or maximum over t of at[t][c]
  void (*sum_pixels)(const float* const* at, int64_t count, int64_t channels, float* out);
  void (*max_pixels)(const float* const* at, int64_t count, int64_t channels, float* out);
  // out[i, c] = in[c * channel + i], c < 3
  void (*interleave3)(const float* in, int64_t channel, int64_t n, float* out);
};

const LastOps& last_ops();

}  // namespace transmuter::cpu
