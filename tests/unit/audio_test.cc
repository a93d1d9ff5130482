// Sounds and their features against what transformers and librosa make of them (scripts/make_media_references.py), and
// files that are broken.
#include "transmuter/audio.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "temporary_folder.h"
#include "tensor/npy.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

const std::string kData = std::string(TRANSMUTER_TEST_DATA) + "/media/";

template <class Fn>
Error failure_of(const Fn& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::internal, "no error"};
}

std::string bytes_of(const std::string& name) {
  std::ifstream file(kData + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Sound decode(const std::string& bytes) { return decode_sound(std::as_bytes(std::span(bytes))); }

void expect_near(const float* got, const float* want, size_t count, double tolerance) {
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const double difference = std::abs(double{got[i]} - want[i]);
    if (!(difference <= worst)) worst = difference, at = i;
  }
  EXPECT_LE(worst, tolerance) << "element " << at << ": " << got[at] << " is not " << want[at];
}

void expect_tensor(const Tensor& got, const std::string& reference, double tolerance) {
  const Tensor want = read_npy(kData + reference);
  ASSERT_EQ(got.shape(), want.shape()) << reference;
  ASSERT_EQ(got.dtype(), want.dtype()) << reference;
  expect_near(reinterpret_cast<const float*>(got.bytes()), reinterpret_cast<const float*>(want.bytes()),
              got.nbytes() / sizeof(float), tolerance);
}

TEST(Audio, LogMelIsWhispers) {
  const std::vector<float> sound = mono(read_sound(kData + "chirp.wav"));
  LogMelOptions options;
  options.samples = 2 * options.rate;  // filled up
  expect_tensor(log_mel(sound, options), "log_mel_80.npy", 1e-5);
  options.samples = options.rate;  // cut
  options.mels = 128;
  expect_tensor(log_mel(sound, options), "log_mel_128.npy", 1e-5);
}

TEST(Audio, SpectraOfEvenAndPrimeLengths) {
  std::vector<float> sound = mono(read_sound(kData + "chirp.wav"));
  sound.resize(4000);
  expect_tensor(stft(sound, {.length = 360, .hop = 200}), "stft_360.npy", 1e-5);
  expect_tensor(stft(sound, {.length = 37, .hop = 500}), "stft_37.npy", 1e-5);
  expect_tensor(mel_filters(80, 400, 16000, 0, 8000), "mel_filters.npy", 1e-8);
}

TEST(Audio, FramesWithoutMirroringAreWholeOnes) {
  const std::vector<float> sound(1000, 1.0f);
  EXPECT_EQ(stft(sound, {.length = 400, .hop = 160, .centered = false}).shape(), (Shape{201, 4}));
  EXPECT_EQ(stft(std::vector<float>(399), {.length = 400, .hop = 160, .centered = false}).shape(), (Shape{201, 0}));
}

TEST(Audio, FilesAndRates) {
  const Sound flac = read_sound(kData + "stereo.flac");
  EXPECT_EQ(flac.rate, 44100);
  EXPECT_EQ(flac.channels, 2);
  const Tensor want = read_npy(kData + "stereo_16k.npy");
  const std::vector<float> speech = read_speech(kData + "stereo.flac", 16000);
  // librosa rounds the length up.
  ASSERT_GE(speech.size(), static_cast<size_t>(want.size()));
  ASSERT_LE(speech.size(), static_cast<size_t>(want.size() + 1));
  expect_near(speech.data(), want.data<float>(), static_cast<size_t>(want.size()), 1e-6);

  std::vector<float> chirp = mono(read_sound(kData + "chirp.wav"));
  chirp.resize(4000);
  const Tensor faster = read_npy(kData + "chirp_22050.npy");
  const std::vector<float> got = resample(chirp, 16000, 22050);
  ASSERT_NEAR(static_cast<double>(got.size()), static_cast<double>(faster.size()), 1);
  expect_near(got.data(), faster.data<float>(), std::min(got.size(), static_cast<size_t>(faster.size())), 1e-6);
  EXPECT_EQ(resample(chirp, 16000, 16000), chirp);

  // Lossy, but the same sound.
  const Sound ogg = read_sound(kData + "stereo.ogg");
  ASSERT_EQ(ogg.samples.size(), flac.samples.size());
  double error = 0, power = 0;
  for (size_t i = 0; i < ogg.samples.size(); ++i) {
    error += std::pow(ogg.samples[i] - flac.samples[i], 2);
    power += std::pow(flac.samples[i], 2);
  }
  EXPECT_LT(error, 0.1 * power);
}

TEST(Audio, WavGoesRound) {
  const TemporaryFolder folder;
  const std::string path = (folder / "sound.wav").string();
  write_wav(path, std::vector<float>{0.0f, 0.5f, -0.5f, 1.0f, -1.0f, 7.0f, -7.0f}, 8000);
  const Sound back = read_sound(path);
  EXPECT_EQ(back.rate, 8000);
  EXPECT_THAT(back.samples,
              testing::Pointwise(testing::FloatNear(1e-4f), {0.0f, 0.5f, -0.5f, 1.0f, -1.0f, 1.0f, -1.0f}));
}

TEST(Audio, BrokenFilesAreClearErrors) {
  EXPECT_EQ(failure_of([] { read_sound(kData + "nothing.wav"); }).code(), ErrorCode::not_found);
  EXPECT_EQ(failure_of([] { read_sound(kData); }).code(), ErrorCode::invalid_input);
  const Error text = failure_of([] { read_sound(kData + "mel_filters.npy"); });
  EXPECT_EQ(text.code(), ErrorCode::invalid_input);
  EXPECT_THAT(text.what(), testing::AllOf(testing::HasSubstr("no sound file"), testing::HasSubstr("mel_filters.npy")));
  EXPECT_THAT(failure_of([] { decode(""); }).what(), testing::HasSubstr("empty"));

  const std::string flac = bytes_of("stereo.flac"), wav = bytes_of("chirp.wav");
  EXPECT_EQ(failure_of([&] { decode(flac.substr(0, flac.size() / 2)); }).code(), ErrorCode::invalid_input);
  EXPECT_EQ(failure_of([&] { decode(wav.substr(0, 20)); }).code(), ErrorCode::invalid_input);
  EXPECT_THAT(failure_of([&] { decode(wav.substr(0, 44)); }).what(), testing::HasSubstr("no sound"));
  std::string torn = flac;
  for (size_t i = flac.size() / 2; i < flac.size() / 2 + 200; ++i) torn[i] = static_cast<char>(~torn[i]);
  EXPECT_EQ(failure_of([&] { decode(torn); }).code(), ErrorCode::invalid_input);
  // Whatever the bytes: sound or an error, never more.
  for (size_t cut = 0; cut < 4000; cut += 37) {
    for (const std::string& file : {flac, wav, bytes_of("stereo.ogg")}) {
      try {
        decode(file.substr(0, cut));
      } catch (const Error& error) {
        EXPECT_NE(error.code(), ErrorCode::internal) << error.what();
      }
    }
  }
}

TEST(Audio, OptionsOutOfReachAreRefused) {
  const std::vector<float> sound(100, 0.0f);
  EXPECT_EQ(failure_of([&] { stft(sound, {.length = 400}); }).code(), ErrorCode::invalid_input);
  EXPECT_EQ(failure_of([&] { stft(sound, {.length = 16, .hop = 0}); }).code(), ErrorCode::invalid_input);
  EXPECT_EQ(failure_of([&] { stft(sound, {.length = -4, .hop = 1}); }).code(), ErrorCode::invalid_input);
  EXPECT_EQ(failure_of([&] { mel_filters(0, 400, 16000, 0, 8000); }).code(), ErrorCode::invalid_input);
  EXPECT_EQ(failure_of([&] { mel_filters(80, 400, 16000, 8000, 100); }).code(), ErrorCode::invalid_input);
  EXPECT_EQ(failure_of([&] { resample(sound, 0, 16000); }).code(), ErrorCode::invalid_input);
  EXPECT_EQ(failure_of([&] { mono({16000, 3, sound}); }).code(), ErrorCode::invalid_input);
  EXPECT_EQ(failure_of([] { write_wav("/tmp/x.wav", std::vector<float>{NAN}, 8000); }).code(),
            ErrorCode::invalid_input);
  EXPECT_EQ(failure_of([&] { log_mel(sound, {.samples = 0}); }).code(), ErrorCode::invalid_input);
}

TEST(Audio, PreprocessorConfigs) {
  const TemporaryFolder folder;
  const auto load = [&](const std::string& json) {
    std::ofstream(folder / "preprocessor_config.json") << json;
    return LogMelOptions::load(folder.string());
  };
  EXPECT_EQ(failure_of([&] { LogMelOptions::load((folder / "no").string()); }).code(), ErrorCode::not_found);
  const LogMelOptions options =
      load(R"({"feature_size": 128, "chunk_length": 8, "sampling_rate": 8000, "n_fft": 200})");
  EXPECT_EQ(options.mels, 128);
  EXPECT_EQ(options.samples, 64000);
  EXPECT_EQ(options.frames.length, 200);
  EXPECT_EQ(options.frames.hop, 160);
  for (const char* json : {"[]", "{", R"({"n_fft": "400"})", R"({"hop_length": 0})", R"({"feature_size": 1e300})",
                           R"({"chunk_length": 536870912})"}) {
    const Error error = failure_of([&] { load(json); });
    EXPECT_EQ(error.code(), ErrorCode::invalid_model) << json;
    EXPECT_THAT(error.what(), testing::HasSubstr("preprocessor_config.json"));
  }
}

}  // namespace
}  // namespace transmuter
