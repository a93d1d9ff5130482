#include "text/entities.h"

#include <algorithm>

namespace transmuter {

namespace {

size_t best_of(const std::vector<double>& scores) {
  return static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

Entity entity_of(const TokenScores& token, const std::vector<std::string>& labels) {
  const size_t best = best_of(token.scores);
  return {.entity = labels[best],
          .score = token.scores[best],
          .word = token.word,
          .index = token.index,
          .byte_start = token.span.begin,
          .byte_end = token.span.end};
}

// One entity for the tokens of a word.
Entity word_of(std::span<const TokenScores> tokens, Aggregation aggregation, const std::vector<std::string>& labels,
               const Tokenizer& tokenizer) {
  std::vector<std::string> pieces;
  for (const TokenScores& token : tokens) pieces.push_back(token.word);
  Entity word;
  if (aggregation == Aggregation::average) {
    TokenScores mean;
    mean.scores.assign(labels.size(), 0);
    for (const TokenScores& token : tokens)
      for (size_t i = 0; i < labels.size(); ++i) mean.scores[i] += token.scores[i] / static_cast<double>(tokens.size());
    word = entity_of(mean, labels);
  } else {
    const auto top = [](const TokenScores& token) { return token.scores[best_of(token.scores)]; };
    const TokenScores* chosen = &tokens.front();
    if (aggregation == Aggregation::max)
      for (const TokenScores& token : tokens)
        if (top(token) > top(*chosen)) chosen = &token;
    word = entity_of(*chosen, labels);
  }
  word.word = tokenizer.join(pieces);
  word.index = -1;
  word.byte_start = tokens.front().span.begin;
  word.byte_end = tokens.back().span.end;
  return word;
}

struct Tag {
  bool begins;
  std::string name;
};

// B-x begins an entity of its own, everything else goes on with one.
Tag tag_of(const std::string& label) {
  if (label.starts_with("B-")) return {true, label.substr(2)};
  if (label.starts_with("I-")) return {false, label.substr(2)};
  return {false, label};
}

Entity joined(std::span<const Entity> parts, const Tokenizer& tokenizer) {
  std::vector<std::string> words;
  double sum = 0;
  for (const Entity& part : parts) {
    words.push_back(part.word);
    sum += part.score;
  }
  const std::string& label = parts.front().entity;
  const size_t dash = label.find('-');
  return {.entity = dash == std::string::npos ? label : label.substr(dash + 1),
          .score = sum / static_cast<double>(parts.size()),
          .word = tokenizer.join(words),
          .index = -1,
          .byte_start = parts.front().byte_start,
          .byte_end = parts.back().byte_end};
}

std::vector<Entity> grouped(const std::vector<Entity>& parts, const Tokenizer& tokenizer) {
  std::vector<Entity> out;
  size_t begin = 0;
  for (size_t i = 1; i <= parts.size(); ++i) {
    if (i < parts.size()) {
      const Tag before = tag_of(parts[i - 1].entity), now = tag_of(parts[i].entity);
      if (now.name == before.name && !now.begins) continue;
    }
    out.push_back(joined(std::span(parts).subspan(begin, i - begin), tokenizer));
    begin = i;
  }
  return out;
}

}  // namespace

std::vector<Entity> aggregate(std::vector<TokenScores> tokens, Aggregation aggregation,
                              const std::vector<std::string>& labels, const Tokenizer& tokenizer) {
  if (tokens.empty()) return {};
  std::vector<Entity> parts;
  if (aggregation == Aggregation::none || aggregation == Aggregation::simple) {
    for (const TokenScores& token : tokens) parts.push_back(entity_of(token, labels));
  } else {
    size_t begin = 0;
    for (size_t i = 1; i <= tokens.size(); ++i) {
      if (i < tokens.size() && tokens[i].is_subword) continue;
      parts.push_back(word_of(std::span(tokens).subspan(begin, i - begin), aggregation, labels, tokenizer));
      begin = i;
    }
  }
  return aggregation == Aggregation::none ? parts : grouped(parts, tokenizer);
}

std::vector<Entity> without_overlaps(std::vector<Entity> entities) {
  if (entities.empty()) return entities;
  std::stable_sort(entities.begin(), entities.end(),
                   [](const Entity& a, const Entity& b) { return a.byte_start < b.byte_start; });
  std::vector<Entity> out;
  Entity previous = entities.front();
  for (const Entity& entity : entities) {
    if (previous.byte_start <= entity.byte_start && entity.byte_start < previous.byte_end) {
      const size_t length = entity.byte_end - entity.byte_start, before = previous.byte_end - previous.byte_start;
      if (length > before || (length == before && entity.score > previous.score)) previous = entity;
    } else {
      out.push_back(previous);
      previous = entity;
    }
  }
  out.push_back(previous);
  return out;
}

}  // namespace transmuter
