// Calls of several threads through one run of a model: each joins where it comes, and leaves where it ends.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "text/generation/search.h"
#include "text/generation/writer.h"

namespace transmuter::generation {

// There is no thread of its own: one of those that wait leads, step by step, until its own answers are there, and the
// next one goes on. So what a call is told of (on_token, stop, processors) it may be told by another call's thread.
class SharedBatch {
 public:
  // The model joins().
  SharedBatch(std::shared_ptr<const TokenModel> model, GenerationBatching limits)
      : model_(std::move(model)), limits_(limits) {}

  // The answers of a search without beams, guidance and guesses. Throws what its own functions throw, and
  // Error(cancelled); a failure of the model reaches all that were in the batch.
  std::vector<GeneratedTokens> write(const Search& search);

 private:
  struct Ticket {
    explicit Ticket(const Search& search) : search(search), writer(search), since(Clock::now()) {}
    const Search& search;
    Writer writer;
    Clock::time_point since;
    std::vector<int64_t> next;  // the tokens chosen last, which the model hasn't been through
    bool done = false;
    std::exception_ptr error;
  };

  void wait_for_more(std::unique_lock<std::mutex>& lock);
  void advance(std::unique_lock<std::mutex>& lock);
  std::vector<Ticket*> admit();
  void begin(const std::vector<Ticket*>& tickets);
  void prefill(const std::vector<Ticket*>& tickets);
  void step();
  void choose(Ticket& ticket, const Tensor& scores, size_t first);
  void leave();

  const std::shared_ptr<const TokenModel> model_;
  const GenerationBatching limits_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool led_ = false;
  std::deque<Ticket*> waiting_;

  // The leader's.
  std::vector<Ticket*> active_;  // in the order of their rows
  std::vector<Ticket*> ended_;   // those that nobody has been told of
  std::optional<TokenRun> run_;
};

}  // namespace transmuter::generation
