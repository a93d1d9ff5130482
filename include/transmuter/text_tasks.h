// Answers about texts: classes, entities, missing words, passages, rankings. Each loads a model's folder and takes what
// its files say (tokenizer, labels, activation, limits); the numbers are those of the pipelines of Hugging Face
// `transformers`. A folder holds tokenizer.json, config.json and model.onnx (or onnx/model.onnx, or one graph alone); a
// path of the graph itself does too.
//
// All may be called from several threads at once, and texts of several callers then run through the model together.
// Text must be UTF-8. Everything throws Error: not_found, io or invalid_model when loading (the message names the
// file), unsupported when the graph is for another task, invalid_input after.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transmuter/model.h"

namespace transmuter {

struct TextTaskOptions {
  CompileOptions compile = {};
  size_t max_length = 0;  // tokens a row may have; 0 = what the files say. What is longer is cut
  // Rows that wait at the same time (of one call or of several) run together while they have about the same length and
  // at most this many tokens, padding included. A row waits at most `batch_delay_ms` for others to come; with 0 it
  // waits only while the model is busy.
  size_t batch_tokens = 512;
  double batch_delay_ms = 0;
};

struct LabelScore {
  std::string label;
  double score = 0;
  bool operator==(const LabelScore&) const = default;
};

// --- Classes of texts ---

struct ClassifyOptions {
  std::optional<size_t> top_k = 1;  // the best so many, best first; nothing = all
  std::string function = {};        // "sigmoid", "softmax" or "none"; "" = as config.json says
};

class TextClassifier {
 public:
  static TextClassifier load(const std::string& folder, const TextTaskOptions& options = {});

  // A list of labels a text, best first.
  std::vector<std::vector<LabelScore>> operator()(std::span<const std::string> texts,
                                                  const ClassifyOptions& options = {}) const;
  // Of pairs, such as a premise and a hypothesis.
  std::vector<std::vector<LabelScore>> pairs(std::span<const std::string> texts, std::span<const std::string> seconds,
                                             const ClassifyOptions& options = {}) const;
  const std::vector<std::string>& labels() const;

  struct Impl;

 private:
  explicit TextClassifier(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// --- Entities in texts ---

// Tokens one by one; tokens of one label joined; words, whose label is that of their first token, of their most certain
// token, or of their tokens' mean; words of one label joined.
enum class Aggregation { none, simple, first, max, average };

struct EntityOptions {
  Aggregation aggregation = Aggregation::none;
  std::vector<std::string> ignore = {"O"};  // labels left out
  // With an aggregation: texts longer than the model takes are read in windows that share this many tokens; without,
  // they are cut.
  std::optional<size_t> stride = {};
  std::string delimiter = " ";  // words(): what the words are joined by for `start` and `end`
};

struct Entity {
  std::string entity;  // the label as the model has it ("B-PER"); of a group without B- and I-
  double score = 0;
  std::string word;    // as the vocabulary writes it ("##ing"); of a group its text
  int64_t index = -1;  // which token of the row; of a group -1
  size_t start = 0;    // code points of the text, as Python counts
  size_t end = 0;
  size_t byte_start = 0;  // bytes of the text
  size_t byte_end = 0;
};

class EntityRecognizer {
 public:
  static EntityRecognizer load(const std::string& folder, const TextTaskOptions& options = {});

  std::vector<std::vector<Entity>> operator()(std::span<const std::string> texts,
                                              const EntityOptions& options = {}) const;
  // Texts that are split into words already.
  std::vector<std::vector<Entity>> words(std::span<const std::vector<std::string>> texts,
                                         const EntityOptions& options = {}) const;

  struct Impl;

 private:
  explicit EntityRecognizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// --- Missing words ---

struct FillMaskOptions {
  size_t top_k = 5;
  std::vector<std::string> targets = {};  // only these; what isn't in the vocabulary counts as its first token
};

struct FilledMask {
  double score = 0;
  int64_t token = 0;
  std::string token_str;  // the token's text
  std::string piece;      // as the vocabulary writes it
  std::string sequence;   // the text with it
};

class MaskFiller {
 public:
  static MaskFiller load(const std::string& folder, const TextTaskOptions& options = {});

  // For each text a list for each of its masks, in order; a text without one is an error.
  std::vector<std::vector<std::vector<FilledMask>>> operator()(std::span<const std::string> texts,
                                                               const FillMaskOptions& options = {}) const;
  const std::string& mask_token() const;  // "[MASK]"

  struct Impl;

 private:
  explicit MaskFiller(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// --- Answers that a text holds ---

struct AnswerOptions {
  size_t top_k = 1;
  size_t max_answer_length = 15;   // tokens
  size_t max_length = 0;           // tokens of question and passage together; 0 = the model's, at most 384
  size_t stride = 0;               // tokens that windows of a long passage share; 0 = half a window, at most 128
  bool handle_impossible = false;  // "" may be the answer
  bool align_to_words = true;
};

struct Answer {
  double score = 0;
  std::string answer;
  size_t start = 0, end = 0;  // code points of the passage
  size_t byte_start = 0, byte_end = 0;
};

class QuestionAnswerer {
 public:
  static QuestionAnswerer load(const std::string& folder, const TextTaskOptions& options = {});

  // Best first, at most top_k.
  std::vector<Answer> operator()(const std::string& question, const std::string& passage,
                                 const AnswerOptions& options = {}) const;

  struct Impl;

 private:
  explicit QuestionAnswerer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// --- Classes named by the caller ---

struct ZeroShotOptions {
  std::string hypothesis = "This example is {}.";  // {} stands for the label
  bool multi_label = false;                        // each label by itself
};

class ZeroShotClassifier {
 public:
  // A model for inference between texts: one of its labels starts with "entail".
  static ZeroShotClassifier load(const std::string& folder, const TextTaskOptions& options = {});

  // A list of all labels a text, best first.
  std::vector<std::vector<LabelScore>> operator()(std::span<const std::string> texts,
                                                  std::span<const std::string> labels,
                                                  const ZeroShotOptions& options = {}) const;

  struct Impl;

 private:
  explicit ZeroShotClassifier(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// --- Rankings ---

struct Ranked {
  size_t index = 0;  // of the document
  double score = 0;
};

// A cross encoder, which reads query and document together; or, where modules.json names a LogitScore, a language model
// that is shown both by its chat template and asked for a token (such as Qwen3-Reranker).
class Reranker {
 public:
  static Reranker load(const std::string& folder, const TextTaskOptions& options = {});

  // One score a document, in order. `raw` leaves out the activation that config.json asks for.
  std::vector<double> scores(const std::string& query, std::span<const std::string> documents, bool raw = false) const;
  // Best first; top_k = 0: all.
  std::vector<Ranked> rank(const std::string& query, std::span<const std::string> documents, size_t top_k = 0,
                           bool raw = false) const;

  struct Impl;

 private:
  explicit Reranker(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace transmuter
