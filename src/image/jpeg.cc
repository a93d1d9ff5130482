// JPEG by libjpeg(-turbo): the accurate DCT and smooth chroma upsampling, as ImageDecoder's text asks.
#include <csetjmp>
#include <cstdio>
// Needs the types of <cstdio> before it.
#include <jerror.h>
#include <jpeglib.h>

#include "image/formats.h"

namespace transmuter::image {
namespace {

// The library reports errors by a call that must not return.
struct Errors {
  jpeg_error_mgr base;
  std::jmp_buf back;
};

void give_up(j_common_ptr info) { std::longjmp(reinterpret_cast<Errors*>(info->err)->back, 1); }

void warn(j_common_ptr info, int level) {
  // A file that ends early would be filled up with grey.
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) give_up(info);
}

// No objects with destructors live in the functions that setjmp returns to.
bool read_header(jpeg_decompress_struct& info, Errors& errors, Bytes file) {
  if (setjmp(errors.back)) return false;
  jpeg_mem_src(&info, file.data(), static_cast<unsigned long>(file.size()));
  if (jpeg_read_header(&info, TRUE) != JPEG_HEADER_OK) return false;
  if (info.num_components == 4)
    info.out_color_space = JCS_CMYK;
  else
    info.out_color_space = info.jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_calc_output_dimensions(&info);
  return true;
}

bool read_rows(jpeg_decompress_struct& info, Errors& errors, uint8_t* rows) {
  if (setjmp(errors.back)) return false;
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = rows + static_cast<size_t>(info.output_scanline) * info.output_width *
                              static_cast<size_t>(info.output_components);
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}

struct Decompress {
  jpeg_decompress_struct info;
  Errors errors;
  Decompress() : info{}, errors{} {
    info.err = jpeg_std_error(&errors.base);
    errors.base.error_exit = give_up;
    errors.base.emit_message = warn;
    jpeg_create_decompress(&info);
    info.mem->max_memory_to_use = 1L << 30;  // a progressive picture's coefficients
  }
  ~Decompress() { jpeg_destroy_decompress(&info); }
  Decompress(const Decompress&) = delete;
  Decompress& operator=(const Decompress&) = delete;
};

// Adobe's files hold what is left of the ink.
void from_cmyk(const std::vector<uint8_t>& inks, bool inverted, std::vector<uint8_t>& pixels) {
  for (size_t i = 0; i < pixels.size() / 3; ++i) {
    const int black = inverted ? inks[4 * i + 3] : 255 - inks[4 * i + 3];
    for (size_t c = 0; c < 3; ++c) {
      const int light = inverted ? inks[4 * i + c] : 255 - inks[4 * i + c];
      pixels[3 * i + c] = static_cast<uint8_t>((light * black + 127) / 255);
    }
  }
}

}  // namespace

std::optional<Image> decode_jpeg(Bytes file) {
  Decompress decompress;
  jpeg_decompress_struct& info = decompress.info;
  if (!read_header(info, decompress.errors, file)) return {};
  const bool cmyk = info.out_color_space == JCS_CMYK;
  std::optional<Image> image =
      start_image(info.output_height, info.output_width, info.out_color_space == JCS_GRAYSCALE ? 1 : 3);
  if (!image) return {};
  std::vector<uint8_t> inks(cmyk ? image->pixels.size() / 3 * 4 : 0);
  if (!read_rows(info, decompress.errors, cmyk ? inks.data() : image->pixels.data())) return {};
  if (cmyk) from_cmyk(inks, info.saw_Adobe_marker, image->pixels);
  return image;
}

}  // namespace transmuter::image
