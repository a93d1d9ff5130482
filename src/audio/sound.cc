// Sound files by libsndfile.
#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "audio/sound.h"
#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter::audio {
namespace {

constexpr size_t kMostSamples = size_t{1} << 29;
constexpr int kMostChannels = 64;
constexpr sf_count_t kBlock = 1 << 16;  // frames

// A file in memory, as libsndfile wants it.
struct Source {
  std::span<const std::byte> bytes;
  sf_count_t at = 0;
};

sf_count_t size_of(void* user) { return static_cast<sf_count_t>(static_cast<Source*>(user)->bytes.size()); }
sf_count_t tell(void* user) { return static_cast<Source*>(user)->at; }
sf_count_t seek(sf_count_t offset, int whence, void* user) {
  Source& source = *static_cast<Source*>(user);
  const sf_count_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? source.at : size_of(user);
  if (offset < -from || offset > size_of(user) - from) return -1;
  return source.at = from + offset;
}
sf_count_t read(void* to, sf_count_t count, void* user) {
  Source& source = *static_cast<Source*>(user);
  count = std::clamp<sf_count_t>(count, 0, size_of(user) - source.at);
  if (count > 0) std::memcpy(to, source.bytes.data() + source.at, static_cast<size_t>(count));
  source.at += count;
  return count;
}
sf_count_t write(const void* /*from*/, sf_count_t /*count*/, void* /*user*/) { return 0; }

struct Close {
  void operator()(SNDFILE* file) const { sf_close(file); }
};

}  // namespace

Sound decode(std::span<const std::byte> file) {
  if (file.empty()) throw Error(ErrorCode::invalid_input, "a sound file is empty");
  SF_VIRTUAL_IO io{size_of, seek, read, write, tell};
  Source source{file};
  SF_INFO info{};
  const std::unique_ptr<SNDFILE, Close> opened(sf_open_virtual(&io, SFM_READ, &info, &source));
  if (!opened)
    throw Error(ErrorCode::invalid_input, str("this is no sound file that can be read: ", sf_strerror(nullptr)));
  if (info.channels < 1 || info.channels > kMostChannels || info.samplerate < 1)
    throw Error(ErrorCode::invalid_input,
                str("a sound file has ", info.channels, " channels at ", info.samplerate, " samples a second"));
  Sound sound{info.samplerate, info.channels, {}};
  const size_t channels = static_cast<size_t>(info.channels);
  // In blocks: what the header claims may not be there.
  for (sf_count_t got = kBlock; got == kBlock;) {
    const size_t before = sound.samples.size();
    if (before + kBlock * channels > kMostSamples)
      throw Error(ErrorCode::limit, str("a sound file has more than ", kMostSamples, " samples"));
    sound.samples.resize(before + kBlock * channels);
    got = sf_readf_float(opened.get(), sound.samples.data() + before, kBlock);
    sound.samples.resize(before + static_cast<size_t>(std::max<sf_count_t>(got, 0)) * channels);
  }
  const size_t frames = sound.samples.size() / channels;
  if (sf_error(opened.get()) != SF_ERR_NO_ERROR)
    throw Error(ErrorCode::invalid_input,
                str("a sound file is damaged after ", frames, " frames: ", sf_strerror(opened.get())));
  // Formats that stream have no count, which libsndfile shows as the largest.
  if (info.frames != SF_COUNT_MAX && static_cast<sf_count_t>(frames) < info.frames)
    throw Error(ErrorCode::invalid_input, str("a sound file ends after ", frames, " of its ", info.frames, " frames"));
  if (frames == 0) throw Error(ErrorCode::invalid_input, "a sound file holds no sound");
  if (!std::all_of(sound.samples.begin(), sound.samples.end(), [](float x) { return std::isfinite(x); }))
    throw Error(ErrorCode::invalid_input, "a sound file holds samples that are no finite numbers");
  return sound;
}

}  // namespace transmuter::audio
