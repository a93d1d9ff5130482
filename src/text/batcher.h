// Rows of several callers through one model, together.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "transmuter/tensor.h"
#include "transmuter/tokenizer.h"

namespace transmuter {

struct BatchLimits {
  size_t tokens = 1024;                   // of a batch, padding included; a longer row runs alone
  size_t rows = 0;                        // of a batch; 0 = no limit
  std::chrono::duration<double> delay{};  // how long a row waits for others
};

// There is no thread of its own: whoever waits runs the next batch, for himself and for others. A batch is the row that
// has waited longest and its neighbours in length, as long as little of it is padding.
class Batcher {
 public:
  struct Row {
    const Encoding* encoding = nullptr;
    std::vector<Tensor> outputs;  // what `run` puts there
  };
  using Run = std::function<void(std::span<Row* const>)>;

  Batcher(Run run, BatchLimits limits) : run_(std::move(run)), limits_(limits) {}

  // Returns when all rows ran. Throws what `run` threw for one of them.
  void operator()(std::span<Row> rows);

  // How many batches ran, for tests and figures.
  uint64_t batches() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Call {
    size_t waiting = 0;
    std::exception_ptr error;
  };
  struct Waiting {
    Row* row;
    Call* call;
    Clock::time_point since;
  };

  bool full() const { return tokens_ >= limits_.tokens; }
  void wait_for_more(std::unique_lock<std::mutex>& lock);
  std::vector<Waiting> take();
  void run_batch(std::unique_lock<std::mutex>& lock);

  const Run run_;
  const BatchLimits limits_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool running_ = false;  // somebody collects or runs a batch
  uint64_t next_ = 0, batches_ = 0;
  size_t tokens_ = 0;                                // of all that wait
  std::map<uint64_t, Waiting> queue_;                // in the order of arrival
  std::set<std::pair<size_t, uint64_t>> by_length_;  // the same rows
};

}  // namespace transmuter
