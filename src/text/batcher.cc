#include "text/batcher.h"

#include <algorithm>

namespace transmuter {

namespace {

size_t length_of(const Batcher::Row& row) { return std::max<size_t>(row.encoding->ids.size(), 1); }

// Padding costs what tokens cost; a few short rows together still beat running each alone.
bool little_padding(size_t rows, size_t longest, size_t tokens) {
  return rows * longest - tokens <= std::max<size_t>(32, tokens / 10);
}

}  // namespace

void Batcher::operator()(std::span<Row> rows) {
  std::vector<Row*> order;
  for (Row& row : rows) order.push_back(&row);
  // Long ones first: then what waits longest has its neighbours on one side, and no short rests stay between batches.
  std::stable_sort(order.begin(), order.end(), [](Row* a, Row* b) { return length_of(*a) > length_of(*b); });
  Call call;
  call.waiting = order.size();
  std::unique_lock lock(mutex_);
  for (Row* row : order) {
    queue_.emplace(next_, Waiting{row, &call, Clock::now()});
    by_length_.emplace(length_of(*row), next_++);
    tokens_ += length_of(*row);
  }
  changed_.notify_all();
  while (call.waiting > 0) {
    if (running_) {
      changed_.wait(lock);
      continue;
    }
    running_ = true;
    wait_for_more(lock);
    run_batch(lock);
    running_ = false;
    changed_.notify_all();
  }
  if (call.error) std::rethrow_exception(call.error);
}

uint64_t Batcher::batches() const {
  const std::lock_guard lock(mutex_);
  return batches_;
}

void Batcher::wait_for_more(std::unique_lock<std::mutex>& lock) {
  if (limits_.delay.count() <= 0) return;
  const auto deadline = queue_.begin()->second.since + std::chrono::duration_cast<Clock::duration>(limits_.delay);
  changed_.wait_until(lock, deadline, [this] { return full(); });
}

std::vector<Batcher::Waiting> Batcher::take() {
  const size_t oldest_length = length_of(*queue_.begin()->second.row);
  auto first = by_length_.find({oldest_length, queue_.begin()->first}), last = std::next(first);
  size_t rows = 1, tokens = oldest_length, longest = oldest_length;
  while (limits_.rows == 0 || rows < limits_.rows) {
    // The neighbour on either side that is nearer in length.
    const bool below = first != by_length_.begin(), above = last != by_length_.end();
    if (!below && !above) break;
    const size_t shorter = below ? std::prev(first)->first : 0, longer = above ? last->first : 0;
    const bool take_longer = above && (!below || longer - longest <= longest - shorter);
    const size_t length = take_longer ? longer : shorter, new_longest = std::max(longest, length);
    if ((rows + 1) * new_longest > limits_.tokens || !little_padding(rows + 1, new_longest, tokens + length)) break;
    take_longer ? ++last : --first;
    longest = new_longest;
    tokens += length;
    ++rows;
  }
  std::vector<Waiting> batch;
  for (auto at = first; at != last; ++at) {
    const auto found = queue_.find(at->second);
    batch.push_back(found->second);
    queue_.erase(found);
  }
  by_length_.erase(first, last);
  tokens_ -= tokens;
  return batch;
}

void Batcher::run_batch(std::unique_lock<std::mutex>& lock) {
  const std::vector<Waiting> batch = take();
  ++batches_;
  lock.unlock();
  std::vector<Row*> rows;
  for (const Waiting& waiting : batch) rows.push_back(waiting.row);
  std::exception_ptr error;
  try {
    run_(rows);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  for (const Waiting& waiting : batch) {
    --waiting.call->waiting;
    if (error && !waiting.call->error) waiting.call->error = error;
  }
}

}  // namespace transmuter
