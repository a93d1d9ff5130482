// What TextGenerator and TextRewriter share: prompts of tokens to answers as texts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "transmuter/text_generator.h"

namespace transmuter {

struct TextGenerator::Impl {
  TokenGenerator tokens;
  Tokenizer tokenizer;
  std::optional<ChatTemplate> chat;
  GenerationConfig config;
  int64_t max_positions = 0;  // tokens that the model was made for; 0: unknown

  std::vector<GeneratedText> write(const std::vector<GenerationPrompt>& prompts, const GenerationConfig& settings,
                                   const TextCall& call) const;
};

}  // namespace transmuter
