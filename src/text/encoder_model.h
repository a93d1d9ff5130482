// An encoder and its tokenizer, as all text tasks use them: rows of tokens in, vectors of texts or tokens out.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "text/batcher.h"
#include "text/folder.h"
#include "transmuter/model.h"
#include "transmuter/text_tasks.h"
#include "transmuter/tokenizer.h"

namespace transmuter {

// The graph that a place names: itself, or the folder's model.onnx, onnx/model.onnx, or only graph. Throws
// Error(not_found) that says what was looked for.
std::string graph_of(const std::filesystem::path& place);
// The folder with the configuration that belongs to it.
std::filesystem::path folder_of(const std::filesystem::path& place);

class EncoderModel {
 public:
  // What a task reads of the graph: one of these outputs, with a vector a token or a vector a text.
  struct Output {
    std::vector<std::string> names;  // the first that the graph has
    bool per_token = false;
    int64_t rank = 0;      // that it must have; 0: 2 or 3, and with 3 it is per token
    bool or_first = true;  // where no name fits, the graph's first output
  };

  // `task` is for messages: "text classification".
  EncoderModel(const std::string& place, const TextTaskOptions& options, const std::string& task,
               const std::vector<Output>& outputs);
  EncoderModel(const EncoderModel&) = delete;
  EncoderModel& operator=(const EncoderModel&) = delete;

  // For each row one f32 tensor for each output: [tokens, width] or [width]; an output of rank 2 that is per token,
  // [tokens]. Padding is left out. Rows must be encoded without padding.
  std::vector<std::vector<Tensor>> run(std::span<const Encoding> rows) const;

  // Options for encoding what run() takes: the limit and the sides of this model.
  EncodeOptions encode_options() const;

  const Output& output(size_t index) const { return outputs_[index]; }
  const std::filesystem::path& folder() const { return folder_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  const TokenizerConfig& tokenizer_config() const { return tokenizer_config_; }
  const Json& config() const { return config_; }  // config.json; an empty object where there is none
  JsonReader config_reader() const { return JsonReader(config_, (folder_ / "config.json").string()); }
  size_t max_length() const { return max_length_; }  // 0 = no limit
  // A special token's id by its name ("mask_token"); nothing when it has none.
  std::optional<int64_t> special_id(const std::string& name) const;
  // "mask_token" as text. Throws Error(invalid_model) that says where it should be.
  const std::string& need_special(const std::string& name) const;
  const Batcher& batcher() const { return *batcher_; }

 private:
  void choose_outputs(const Model& model, const std::vector<Output>& wanted);
  void check_inputs(const Model& model);
  size_t limit(size_t asked) const;
  void run_batch(std::span<Batcher::Row* const> rows) const;
  [[noreturn]] void wrong_graph(const std::string& why) const;

  std::filesystem::path folder_;
  std::string graph_, task_;
  Tokenizer tokenizer_;
  TokenizerConfig tokenizer_config_;
  Json config_;
  std::vector<ValueSpec> inputs_;
  std::vector<Output> outputs_;  // with the one name
  std::vector<std::string> all_outputs_;
  int64_t fixed_rows_ = -1, fixed_tokens_ = -1;
  size_t max_length_ = 0;
  std::optional<int64_t> pad_id_;
  bool has_types_ = true;  // the model was trained with the second text of a pair marked
  std::optional<CompiledModel> compiled_;
  std::unique_ptr<Batcher> batcher_;
};

// The labels that config.json gives the outputs 0, 1, …; `count` of them where it has none (LABEL_0, …).
std::vector<std::string> labels_of(const EncoderModel& model, size_t count = 0);
// Throws Error(invalid_model), the files' fault, unless a graph that gives `width` scores for each `what` ("text",
// "token") has so many labels.
void check_labels(const EncoderModel& model, size_t labels, int64_t width, const char* what);
// How many labels config.json says; 0: it doesn't.
size_t label_count(const EncoderModel& model);

// Where the code points of a text begin, for turning bytes into code points.
class CodePoints {
 public:
  explicit CodePoints(const std::string& text);
  size_t at(size_t byte) const;  // how many code points begin before it

 private:
  std::vector<size_t> starts_;
};

}  // namespace transmuter
