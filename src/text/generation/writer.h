// The answers of one search as they are written, token by token: what is chosen for each row, and where it ends.
#pragma once

#include <cstdint>
#include <vector>

#include "text/generation/process.h"
#include "text/generation/search.h"

namespace transmuter::generation {

class Writer {
 public:
  // Refers to the search, which must outlive it. num_return_sequences rows a prompt.
  explicit Writer(const Search& search);

  // The next token of each row; of those that are done the padding. The rows of `scores` (and of `without`, where there
  // is guidance) from `first` on are its own. Throws what the caller's processors throw.
  std::vector<int64_t> choose(const Tensor& scores, const Tensor& without, size_t first = 0);
  // Appends them, and tells of them. False when all rows are done. Throws what the caller's functions throw.
  bool take(const std::vector<int64_t>& next);

  size_t rows() const { return rows_.size(); }
  // Tokens of a row, padding included.
  int64_t length() const { return length_; }
  // Of the first row: its tokens so far, how many more it may get, and one more that was guessed.
  const std::vector<int64_t>& ids() const { return rows_[0].ids; }
  int64_t left() const { return search_.max_length - length_; }
  void count_guessed() { ++rows_[0].answer.guessed; }

  // Leaves the writer empty.
  std::vector<GeneratedTokens> answers();

 private:
  // One answer.
  struct Row {
    GeneratedTokens answer;
    const Start* start = nullptr;
    size_t place = 0;          // of the answer in the call
    size_t stream = 0;         // of draws
    std::vector<int64_t> ids;  // prompt and answer
    bool done = false;
  };

  const Search& search_;
  Processors processors_;
  std::vector<Row> rows_;
  int64_t length_;
};

}  // namespace transmuter::generation
