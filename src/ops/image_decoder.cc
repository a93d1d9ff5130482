// ImageDecoder: u8 [bytes of a file] -> u8 [height, width, channels], channels 3 (RGB, BGR) or 1 (Grayscale, by the
// weights of ITU-R 601). What is no picture is an error, as it is for ONNX's reference and ONNX Runtime: the operator's
// text says an empty tensor, with which a model would go on in silence. A grey picture asked for as RGB has three equal
// channels.
#include <string_view>

#include "image/decode.h"
#include "ops/host_node.h"
#include "ops/registry.h"

// NOLINTBEGIN(performance-unnecessary-value-param): inputs by value, as HostRun has it
namespace transmuter::ops {
namespace {

using transmuter::Value;

// Weights of 16 bits, rounded, as ONNX's reference (Pillow) has them.
uint8_t luma(const uint8_t* rgb) {
  return static_cast<uint8_t>((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 0x8000u) >> 16);
}

std::vector<uint8_t> in_format(const image::Image& image, std::string_view format) {
  const size_t count = static_cast<size_t>(image.height * image.width);
  const std::vector<uint8_t>& from = image.pixels;
  if (format == "Grayscale") {
    if (image.channels == 1) return from;
    std::vector<uint8_t> grey(count);
    for (size_t i = 0; i < count; ++i) grey[i] = luma(&from[3 * i]);
    return grey;
  }
  std::vector<uint8_t> colours(3 * count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      const size_t source = image.channels == 1 ? i : 3 * i + (format == "BGR" ? 2 - c : c);
      colours[3 * i + c] = from[source];
    }
  }
  return colours;
}

std::vector<Value> decode(const onnx::Node& node, std::vector<Value> inputs) {
  const Tensor& file = tensor_input(node, inputs, 0);
  if (file.dtype() != DType::u8 || file.rank() != 1) invalid(node, "the encoded stream must be uint8 of rank 1");
  const std::string format = text_attribute(node, "pixel_format", "RGB");
  if (format != "RGB" && format != "BGR" && format != "Grayscale")
    invalid(node, "pixel_format ", format, " is not RGB, BGR or Grayscale");
  const std::vector<uint8_t> bytes = file.aligned().to_vector<uint8_t>();
  const std::optional<image::Image> image = image::decode(bytes);
  if (!image)
    throw Error(ErrorCode::invalid_input,
                str("ImageDecoder: the ", bytes.size(), " bytes are no picture of a known format, or a damaged one"));
  const int64_t channels = format == "Grayscale" ? 1 : 3;
  return {Tensor(in_format(*image, format), {image->height, image->width, channels})};
}

}  // namespace

void register_image_decoder(Registry& r) { r.add_host("ImageDecoder", {20}, decode); }

}  // namespace transmuter::ops
// NOLINTEND(performance-unnecessary-value-param)
