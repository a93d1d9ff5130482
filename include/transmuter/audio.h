// Sound for models: files read, rates changed, and the features that speech models take. Samples are f32, full scale
// at +-1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transmuter/tensor.h"

namespace transmuter {

struct Sound {
  int64_t rate = 0;  // frames a second
  int64_t channels = 1;
  std::vector<float> samples;  // [frames, channels]
};

// A sound file: WAV, FLAC, Ogg and what else libsndfile knows. Throws Error: not_found or io for the file,
// invalid_input naming what is wrong with its bytes, limit past 2^29 samples, unsupported in a build without
// libsndfile.
Sound read_sound(const std::string& path);
Sound decode_sound(std::span<const std::byte> file);

// The channels' mean.
std::vector<float> mono(const Sound& sound);

// The same sound at another rate, by libsoxr's high quality (librosa's default), ceil(size * to / from) samples. Throws
// Error: invalid_input for a rate that isn't positive, unsupported in a build without libsoxr.
std::vector<float> resample(std::span<const float> samples, int64_t from, int64_t to);

// What a model hears of a file: one channel at its rate. Throws as the three above.
std::vector<float> read_speech(const std::string& path, int64_t rate);

// One channel as 16-bit PCM, rounded, beyond +-1 clipped. Throws Error: invalid_input for samples that are no numbers
// or too many for the format, io.
void write_wav(const std::string& path, std::span<const float> samples, int64_t rate);

struct StftOptions {
  int64_t length = 400;  // samples a frame; the window is Hann's, periodic
  int64_t hop = 160;
  // Frame i's middle is sample i * hop; the ends are mirrored. Else its first sample is, and only whole frames count.
  bool centered = true;
};

// The short-time Fourier transform, complex64 [length / 2 + 1, frames], computed in double. Throws
// Error(invalid_input) for a length or hop that isn't positive, or fewer samples than mirroring needs.
Tensor stft(std::span<const float> samples, const StftOptions& options = {});

// Triangles that gather a spectrum's bins by how pitch is heard, f32 [mels, length / 2 + 1], each of unit area:
// Slaney's scale and norm, as librosa and `transformers` make them. Throws Error(invalid_input) for sizes or edges out
// of order.
Tensor mel_filters(int64_t mels, int64_t length, int64_t rate, double lowest, double highest);

// What models of Whisper's kind take; defaults are its own.
struct LogMelOptions {
  int64_t rate = 16000;
  int64_t mels = 80;
  StftOptions frames = {};
  int64_t samples = 480000;  // the sound is cut to it or filled up with zeros

  // A folder's preprocessor_config.json; fields that it lacks have the defaults. Throws Error: not_found, io,
  // invalid_model naming the field.
  static LogMelOptions load(const std::string& folder);
};

// f32 [1, mels, samples / hop]: log10 of the mel spectrum up to 8 kHz, at most 8 below its largest, then (x + 4) / 4;
// what WhisperFeatureExtractor of `transformers` gives. The sound must have the options' rate. Throws
// Error(invalid_input).
Tensor log_mel(std::span<const float> samples, const LogMelOptions& options = {});

}  // namespace transmuter
