// What a call of generation must not ask for.
#pragma once

#include "transmuter/generation.h"

namespace transmuter::generation {

// Throws Error(invalid_input) for settings out of their range or that contradict each other or the call. `prompts`: how
// many the call has.
void check_settings(const GenerationConfig& config, const GenerationCall& call, size_t prompts, bool has_encoder);

// The same for a prompt without tokens, or with ids that no vocabulary has. `place`: of the prompt in the call.
void check_prompt(const GenerationPrompt& prompt, size_t place, bool has_encoder);

}  // namespace transmuter::generation
