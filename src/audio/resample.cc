// Another rate by libsoxr.
#include <soxr.h>

#include "audio/sound.h"
#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter::audio {

std::vector<float> resample_to(std::span<const float> samples, double from, double to, size_t size) {
  std::vector<float> out(size);
  const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
  size_t taken = 0, made = 0;
  const soxr_error_t error = soxr_oneshot(from, to, 1, samples.data(), samples.size(), &taken, out.data(), out.size(),
                                          &made, nullptr, &quality, nullptr);
  if (error)
    throw Error(ErrorCode::invalid_input,
                str("a sound cannot go from ", from, " to ", to, " samples a second: ", error));
  return out;
}

}  // namespace transmuter::audio
