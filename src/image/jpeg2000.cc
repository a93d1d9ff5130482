// JPEG 2000 by OpenJPEG: files (jp2) and bare codestreams. Samples of any precision are scaled to eight bits by shifts;
// components with fewer samples are repeated; YCC becomes red, green and blue.
#include <openjpeg.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "image/formats.h"

namespace transmuter::image {
namespace {

struct Source {
  Bytes file;
  size_t at = 0;
};

OPJ_SIZE_T read(void* to, OPJ_SIZE_T count, void* data) {
  Source& source = *static_cast<Source*>(data);
  const size_t got = std::min<size_t>(count, source.file.size() - source.at);
  if (got == 0) return static_cast<OPJ_SIZE_T>(-1);
  std::memcpy(to, source.file.data() + source.at, got);
  source.at += got;
  return got;
}

OPJ_OFF_T skip(OPJ_OFF_T count, void* data) {
  Source& source = *static_cast<Source*>(data);
  const auto rest = static_cast<OPJ_OFF_T>(source.file.size() - source.at);
  if (count < -static_cast<OPJ_OFF_T>(source.at) || count > rest) return -1;
  source.at = static_cast<size_t>(static_cast<OPJ_OFF_T>(source.at) + count);
  return count;
}

OPJ_BOOL seek(OPJ_OFF_T to, void* data) {
  Source& source = *static_cast<Source*>(data);
  if (to < 0 || static_cast<size_t>(to) > source.file.size()) return OPJ_FALSE;
  source.at = static_cast<size_t>(to);
  return OPJ_TRUE;
}

uint8_t sample(const opj_image_comp_t& component, int64_t y, int64_t x, int64_t height, int64_t width) {
  const int64_t row = std::min<int64_t>(y * component.h / height, component.h - 1);
  const int64_t column = std::min<int64_t>(x * component.w / width, component.w - 1);
  int64_t value = component.data[row * component.w + column];
  if (component.sgnd) value += int64_t{1} << (component.prec - 1);
  value = component.prec > 8 ? value >> (component.prec - 8) : value << (8 - component.prec);
  return static_cast<uint8_t>(std::clamp<int64_t>(value, 0, 255));
}

uint8_t to_byte(double value) { return static_cast<uint8_t>(std::clamp(std::lround(value), 0L, 255L)); }

}  // namespace

std::optional<Image> decode_jpeg2000(Bytes file) {
  Source source{file};
  const std::unique_ptr<opj_stream_t, void (*)(opj_stream_t*)> stream(opj_stream_default_create(OPJ_TRUE),
                                                                      opj_stream_destroy);
  const std::unique_ptr<opj_codec_t, void (*)(opj_codec_t*)> codec(
      opj_create_decompress(file[0] == 0 ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K), opj_destroy_codec);
  if (!stream || !codec) return {};
  opj_stream_set_user_data(stream.get(), &source, nullptr);
  opj_stream_set_user_data_length(stream.get(), file.size());
  opj_stream_set_read_function(stream.get(), read);
  opj_stream_set_skip_function(stream.get(), skip);
  opj_stream_set_seek_function(stream.get(), seek);
  opj_dparameters_t parameters;
  opj_set_default_decoder_parameters(&parameters);
  opj_image_t* header = nullptr;
  if (!opj_setup_decoder(codec.get(), &parameters) || !opj_read_header(stream.get(), codec.get(), &header)) {
    opj_image_destroy(header);
    return {};
  }
  const std::unique_ptr<opj_image_t, void (*)(opj_image_t*)> stored(header, opj_image_destroy);
  if (stored->numcomps < 1 || stored->x1 <= stored->x0 || stored->y1 <= stored->y0) return {};
  const bool colour = stored->numcomps >= 3;
  std::optional<Image> image = start_image(static_cast<int64_t>(stored->y1) - stored->y0,
                                           static_cast<int64_t>(stored->x1) - stored->x0, colour ? 3 : 1);
  if (!image || !opj_decode(codec.get(), stream.get(), stored.get()) || !opj_end_decompress(codec.get(), stream.get()))
    return {};
  for (uint32_t i = 0; i < static_cast<uint32_t>(image->channels); ++i) {
    const opj_image_comp_t& component = stored->comps[i];
    if (!component.data || component.w < 1 || component.h < 1 || component.prec < 1 || component.prec > 31) return {};
  }
  uint8_t* out = image->pixels.data();
  for (int64_t y = 0; y < image->height; ++y)
    for (int64_t x = 0; x < image->width; ++x)
      for (int64_t c = 0; c < image->channels; ++c)
        *out++ = sample(stored->comps[c], y, x, image->height, image->width);
  if (colour && stored->color_space == OPJ_CLRSPC_SYCC) {
    for (size_t i = 0; i < image->pixels.size(); i += 3) {
      const double luma = image->pixels[i], blue = image->pixels[i + 1] - 128.0, red = image->pixels[i + 2] - 128.0;
      image->pixels[i] = to_byte(luma + 1.402 * red);
      image->pixels[i + 1] = to_byte(luma - 0.344136 * blue - 0.714136 * red);
      image->pixels[i + 2] = to_byte(luma + 1.772 * blue);
    }
  }
  return image;
}

}  // namespace transmuter::image
