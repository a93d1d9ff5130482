// Sound in and out of files: what no library is needed for.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "audio/sound.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "transmuter/audio.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

constexpr int64_t kHighestRate = int64_t{1} << 30;

// A RIFF file with one chunk of format and one of samples, all little-endian.
constexpr size_t kHeader = 44;

void put(std::string& to, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i) & 0xff);
}

}  // namespace

Sound decode_sound(std::span<const std::byte> file) { return audio::decode(file); }

Sound read_sound(const std::string& path) {
  const auto file = MappedFile::open(path, /*map=*/false);
  try {
    return audio::decode({file->bytes(), file->size()});
  } catch (Error& error) {
    throw error.in("file " + path);
  }
}

std::vector<float> mono(const Sound& sound) {
  if (sound.channels < 1 || sound.samples.size() % static_cast<size_t>(sound.channels) != 0)
    throw Error(ErrorCode::invalid_input,
                str("a sound of ", sound.samples.size(), " samples cannot have ", sound.channels, " channels"));
  if (sound.channels == 1) return sound.samples;
  const size_t channels = static_cast<size_t>(sound.channels);
  std::vector<float> out(sound.samples.size() / channels);
  for (size_t i = 0; i < out.size(); ++i) {
    const float* frame = sound.samples.data() + i * channels;
    out[i] = static_cast<float>(std::accumulate(frame, frame + channels, 0.0) / static_cast<double>(channels));
  }
  return out;
}

std::vector<float> resample(std::span<const float> samples, int64_t from, int64_t to) {
  if (from < 1 || to < 1 || from > kHighestRate || to > kHighestRate)
    throw Error(ErrorCode::invalid_input, str("a sound cannot go from ", from, " to ", to, " samples a second"));
  if (from == to || samples.empty()) return {samples.begin(), samples.end()};
  const double size =
      std::ceil(static_cast<double>(samples.size()) * static_cast<double>(to) / static_cast<double>(from));
  if (size > static_cast<double>(int64_t{1} << 31))
    throw Error(ErrorCode::limit, str("a sound at ", to, " samples a second would have ", size, " samples"));
  return audio::resample_to(samples, static_cast<double>(from), static_cast<double>(to), static_cast<size_t>(size));
}

std::vector<float> read_speech(const std::string& path, int64_t rate) {
  const Sound sound = read_sound(path);
  return resample(mono(sound), sound.rate, rate);
}

void write_wav(const std::string& path, std::span<const float> samples, int64_t rate) {
  const uint64_t bytes = uint64_t{2} * samples.size();
  if (rate < 1 || rate > kHighestRate || bytes > UINT32_MAX - kHeader)
    throw Error(ErrorCode::invalid_input,
                str("a WAV file cannot hold ", samples.size(), " samples at ", rate, " a second"));
  std::string file = "RIFF";
  put(file, static_cast<uint32_t>(kHeader - 8 + bytes), 4);
  file += "WAVEfmt ";
  put(file, 16, 4);                               // bytes of the format:
  put(file, 1, 2);                                // PCM
  put(file, 1, 2);                                // channels
  put(file, static_cast<uint32_t>(rate), 4);      // frames a second
  put(file, static_cast<uint32_t>(rate) * 2, 4);  // bytes a second
  put(file, 2, 2);                                // bytes a frame
  put(file, 16, 2);                               // bits a sample
  file += "data";
  put(file, static_cast<uint32_t>(bytes), 4);
  for (const float sample : samples) {
    if (!std::isfinite(sample))
      throw Error(ErrorCode::invalid_input, "a sound holds samples that are no finite numbers");
    put(file, static_cast<uint32_t>(std::lrint(std::clamp(sample, -1.0f, 1.0f) * 32767)), 2);
  }
  write_file(path, file);
}

}  // namespace transmuter
