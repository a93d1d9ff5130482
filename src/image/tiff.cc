// TIFF by libtiff, the first page; whatever its samples are, the library makes red, green and blue of them.
#include <tiffio.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "image/formats.h"

namespace transmuter::image {
namespace {

struct Source {
  Bytes file;
  size_t at = 0;
};

tmsize_t read(thandle_t handle, void* to, tmsize_t count) {
  Source& source = *static_cast<Source*>(handle);
  const size_t here = std::min(source.at, source.file.size());
  const size_t got = std::min(static_cast<size_t>(std::max<tmsize_t>(count, 0)), source.file.size() - here);
  if (got > 0) std::memcpy(to, source.file.data() + here, got);
  source.at = here + got;
  return static_cast<tmsize_t>(got);
}

tmsize_t write(thandle_t /*handle*/, void* /*from*/, tmsize_t /*count*/) { return -1; }

toff_t seek(thandle_t handle, toff_t offset, int whence) {
  Source& source = *static_cast<Source*>(handle);
  source.at = static_cast<size_t>(offset) + (whence == SEEK_CUR   ? source.at
                                             : whence == SEEK_END ? source.file.size()
                                                                  : size_t{0});
  return source.at;
}

int close(thandle_t /*handle*/) { return 0; }
toff_t size(thandle_t handle) { return static_cast<Source*>(handle)->file.size(); }
int ignore(TIFF* /*tiff*/, void* /*data*/, const char* /*module*/, const char* /*format*/, va_list /*pieces*/) {
  return 1;
}

}  // namespace

std::optional<Image> decode_tiff(Bytes file) {
  Source source{file};
  const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                             TIFFOpenOptionsFree);
  if (!options) return {};
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), ignore, nullptr);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), ignore, nullptr);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), tmsize_t{1} << 30);
  // "m": no mapping, since the file is in memory already.
  const std::unique_ptr<TIFF, void (*)(TIFF*)> tiff(
      TIFFClientOpenExt("picture", "rm", &source, read, write, seek, close, size, nullptr, nullptr, options.get()),
      TIFFClose);
  if (!tiff) return {};
  uint32_t width = 0, height = 0;
  if (!TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width) || !TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height))
    return {};
  // Colours as they are stored: the library would multiply them by an alpha that is said to be separate.
  uint16_t extras = 0;
  uint16_t* kinds = nullptr;
  if (TIFFGetField(tiff.get(), TIFFTAG_EXTRASAMPLES, &extras, &kinds) && extras == 1 &&
      kinds[0] == EXTRASAMPLE_UNASSALPHA) {
    const uint16_t joined = EXTRASAMPLE_ASSOCALPHA;
    TIFFSetField(tiff.get(), TIFFTAG_EXTRASAMPLES, 1, &joined);
  }
  std::optional<Image> image = start_image(height, width, 3);
  if (!image) return {};
  uint16_t photometric = PHOTOMETRIC_RGB;
  TIFFGetField(tiff.get(), TIFFTAG_PHOTOMETRIC, &photometric);
  const bool grey = photometric == PHOTOMETRIC_MINISBLACK || photometric == PHOTOMETRIC_MINISWHITE;
  std::vector<uint32_t> packed(image->pixels.size() / 3);
  if (!TIFFReadRGBAImageOriented(tiff.get(), width, height, packed.data(), ORIENTATION_TOPLEFT, 1)) return {};
  if (grey) {
    image->channels = 1;
    image->pixels.resize(packed.size());
  }
  for (size_t i = 0; i < packed.size(); ++i) {
    if (grey) {
      image->pixels[i] = static_cast<uint8_t>(TIFFGetR(packed[i]));
      continue;
    }
    image->pixels[3 * i] = static_cast<uint8_t>(TIFFGetR(packed[i]));
    image->pixels[3 * i + 1] = static_cast<uint8_t>(TIFFGetG(packed[i]));
    image->pixels[3 * i + 2] = static_cast<uint8_t>(TIFFGetB(packed[i]));
  }
  return image;
}

}  // namespace transmuter::image
