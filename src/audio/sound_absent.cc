// Stands in for sound.cc in a build without libsndfile.
#include "audio/sound.h"
#include "transmuter/error.h"

namespace transmuter::audio {

Sound decode(std::span<const std::byte> /*file*/) {
  throw Error(ErrorCode::unsupported, "this build reads no sound files: it was made without libsndfile");
}

}  // namespace transmuter::audio
