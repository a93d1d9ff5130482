// Speech in, text out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transmuter/generation.h"
#include "transmuter/model.h"

namespace transmuter {

struct TranscribeOptions {
  std::string language = {};  // of models of several: "en"; "" = the one that the model hears
  bool translate = false;     // into English
};

struct Transcript {
  std::string text;
  std::string language;  // of models of several, heard or given; else ""
  std::vector<int64_t> ids;
};

// Encoder-decoders that hear log-mel features (Whisper's kind). A folder with encoder_model.onnx and its decoder,
// tokenizer.json, preprocessor_config.json (which features) and generation_config.json, which says how an answer
// begins, in which languages and for which tasks. Cheap to copy; may be called from several threads.
class SpeechRecognizer {
 public:
  // Throws Error: not_found, io, invalid_model naming the file; unsupported for models that hear something else.
  static SpeechRecognizer load(const std::string& folder, const CompileOptions& compile = {},
                               const std::string& dtype = "");

  int64_t rate() const;                    // samples a second that it takes (audio.h: read_speech)
  const GenerationConfig& config() const;  // what the folder's files say; a call starts from a copy
  // A sound longer than the model hears at a time (half a minute) is cut there, and the texts are joined. Throws
  // Error(invalid_input) for a language that the model doesn't know, or a choice that it doesn't have.
  Transcript operator()(std::span<const float> sound, const TranscribeOptions& options,
                        const GenerationConfig& config) const;
  Transcript operator()(std::span<const float> sound, const TranscribeOptions& options = {}) const {
    return (*this)(sound, options, config());
  }

  struct Impl;

 private:
  explicit SpeechRecognizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;
};

}  // namespace transmuter
