// WebP by libwebp; of an animation the first frame.
#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>

#include "image/formats.h"

namespace transmuter::image {

std::optional<Image> decode_webp(Bytes file) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(file.data(), file.size(), &features) != VP8_STATUS_OK) return {};
  std::optional<Image> image = start_image(features.height, features.width, 3);
  if (!image) return {};
  if (!features.has_animation) {
    if (!WebPDecodeRGBInto(file.data(), file.size(), image->pixels.data(), image->pixels.size(), features.width * 3))
      return {};
    return image;
  }
  const WebPData data = {file.data(), file.size()};
  const std::unique_ptr<WebPAnimDecoder, void (*)(WebPAnimDecoder*)> frames(WebPAnimDecoderNew(&data, nullptr),
                                                                            WebPAnimDecoderDelete);
  uint8_t* frame = nullptr;
  int time = 0;
  if (!frames || !WebPAnimDecoderGetNext(frames.get(), &frame, &time)) return {};
  for (size_t i = 0; i < image->pixels.size() / 3; ++i)
    for (size_t c = 0; c < 3; ++c) image->pixels[3 * i + c] = frame[4 * i + c];
  return image;
}

}  // namespace transmuter::image
