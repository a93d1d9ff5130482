// From one vector of scores a token to entities.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "transmuter/text_tasks.h"
#include "transmuter/tokenizer.h"

namespace transmuter {

// A token that is no special one, with the probabilities of the labels.
struct TokenScores {
  std::string word;  // as the vocabulary writes it; an unknown one as the text does
  std::vector<double> scores;
  int64_t index = 0;  // which of the row
  ByteSpan span;      // of the text
  bool is_subword = false;
};

// Entities without byte offsets turned into code points; those of labels to be ignored are still there.
std::vector<Entity> aggregate(std::vector<TokenScores> tokens, Aggregation aggregation,
                              const std::vector<std::string>& labels, const Tokenizer& tokenizer);

// Of overlapping entities, as windows of a long text give them, the longer one stays; of equal ones the more certain.
std::vector<Entity> without_overlaps(std::vector<Entity> entities);

}  // namespace transmuter
