// PNG by libpng. Samples as stored: no gamma, no background under transparent pixels.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>

#include "base/strings.h"
#include "image/formats.h"
#include "transmuter/error.h"

namespace transmuter::image {
namespace {

struct Source {
  Bytes rest;
};

void give_up(png_structp png, png_const_charp /*message*/) {
  longjmp(*png_set_longjmp_fn(png, longjmp, sizeof(jmp_buf)), 1);
}
void ignore(png_structp /*png*/, png_const_charp /*message*/) {}

void read(png_structp png, png_bytep to, size_t count) {
  Source& source = *static_cast<Source*>(png_get_io_ptr(png));
  if (source.rest.size() < count) png_error(png, "the file ends early");
  std::memcpy(to, source.rest.data(), count);
  source.rest = source.rest.subspan(count);
}

struct Reading {
  Source source;
  png_structp png = nullptr;
  png_infop info = nullptr;
  explicit Reading(Bytes file) : source{file} {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, give_up, ignore);
    info = png ? png_create_info_struct(png) : nullptr;
    if (info) png_set_read_fn(png, &source, read);
  }
  ~Reading() { png_destroy_read_struct(&png, &info, nullptr); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
};

// No objects with destructors live in the functions that setjmp returns to.
bool read_header(Reading& reading) {
  png_structp png = reading.png;
  if (setjmp(png_jmpbuf(png))) return false;
  // What it claims is judged by start_image().
  png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
  png_read_info(png, reading.info);
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, reading.info);
  return true;
}

bool read_rows(Reading& reading, png_bytepp rows) {
  if (setjmp(png_jmpbuf(reading.png))) return false;
  png_read_image(reading.png, rows);
  png_read_end(reading.png, nullptr);
  return true;
}

}  // namespace

std::optional<Image> decode_png(Bytes file) {
  Reading reading(file);
  if (!reading.info || !read_header(reading)) return {};
  const int64_t height = png_get_image_height(reading.png, reading.info),
                width = png_get_image_width(reading.png, reading.info),
                channels = png_get_channels(reading.png, reading.info);
  if (channels != 1 && channels != 3) return {};
  // Before any memory: deflate makes at most 1032 bytes of one, and a byte is at most eight pixels.
  if (height <= kMostPixels && width <= kMostPixels &&
      height * ((width + 7) / 8) > static_cast<int64_t>(file.size()) * 1032)
    return {};
  std::optional<Image> image = start_image(height, width, channels);
  if (!image) return {};
  std::vector<png_bytep> rows(static_cast<size_t>(height));
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = image->pixels.data() + y * static_cast<size_t>(width * channels);
  if (png_get_rowbytes(reading.png, reading.info) != static_cast<size_t>(width * channels)) return {};
  if (!read_rows(reading, rows.data())) return {};
  return image;
}

std::string encode_png(int64_t height, int64_t width, int64_t channels, const uint8_t* pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string file(size, '\0');
  if (!png_image_write_to_memory(&image, file.data(), &size, 0, pixels, 0, nullptr))
    throw Error(ErrorCode::invalid_input,
                str("a picture of ", height, " x ", width, " cannot become a PNG file: ", &image.message[0]));
  file.resize(size);
  return file;
}

}  // namespace transmuter::image
