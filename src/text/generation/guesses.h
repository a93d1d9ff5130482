// Guesses of what a text goes on with, which the model checks several of in one step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "text/generation/token_model.h"

namespace transmuter::generation {

class Guesser {
 public:
  virtual ~Guesser() = default;
  // At most `count` ids that may follow `ids`; none when there is nothing to go by.
  virtual std::vector<int64_t> guess(const std::vector<int64_t>& ids, int64_t count) = 0;
  // How many at a time are worth asking for.
  virtual int64_t count() const = 0;
  // How many of those asked for last were right.
  virtual void learn(int64_t /*right*/, int64_t /*asked*/) {}
};

// What followed the text's last tokens where they stood before: the latest place of the longest run of at most
// `longest`.
class LookupGuesser : public Guesser {
 public:
  LookupGuesser(int64_t count, int64_t longest) : count_(count), longest_(longest) {}
  std::vector<int64_t> guess(const std::vector<int64_t>& ids, int64_t count) override;
  int64_t count() const override { return count_; }

 private:
  int64_t count_, longest_;
};

// The best tokens of a smaller model, until it gives one a probability below `sure`, or one of `ends`.
class ModelGuesser : public Guesser {
 public:
  ModelGuesser(std::shared_ptr<const TokenModel> model, int64_t count, double sure, std::vector<int64_t> ends,
               RunOptions options)
      : run_(std::move(model)), count_(count), most_(count), sure_(sure), ends_(std::move(ends)), options_(options) {}
  // Throws Error(unsupported) for a model whose state can't be taken back.
  std::vector<int64_t> guess(const std::vector<int64_t>& ids, int64_t count) override;
  int64_t count() const override { return count_; }
  void learn(int64_t right, int64_t asked) override;

 private:
  TokenRun run_;
  std::vector<int64_t> seen_;  // what `run_` has been through
  int64_t count_, most_;
  double sure_;
  std::vector<int64_t> ends_;
  RunOptions options_;
};

}  // namespace transmuter::generation
