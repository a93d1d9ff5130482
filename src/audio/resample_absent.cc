// Stands in for resample.cc in a build without libsoxr.
#include "audio/sound.h"
#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter::audio {

std::vector<float> resample_to(std::span<const float> /*samples*/, double from, double to, size_t /*size*/) {
  throw Error(ErrorCode::unsupported,
              str("this build cannot go from ", from, " to ", to, " samples a second: it was made without libsoxr"));
}

}  // namespace transmuter::audio
