#include "text/generation/shared_batch.h"

#include <algorithm>

#include "runtime/decoder_rows.h"
#include "transmuter/error.h"

namespace transmuter::generation {

namespace {

// Padding costs what tokens cost, so long and short texts stay apart.
bool little_padding(int64_t rows, int64_t longest, int64_t tokens) {
  constexpr int64_t kNothing = 256;
  return rows * longest <= 2 * tokens + kNothing;
}

}  // namespace

std::vector<GeneratedTokens> SharedBatch::write(const Search& search) {
  Ticket ticket(search);
  std::unique_lock lock(mutex_);
  waiting_.push_back(&ticket);
  changed_.notify_all();
  while (!ticket.done) {
    if (led_) {
      changed_.wait(lock);
      continue;
    }
    led_ = true;
    if (active_.empty()) wait_for_more(lock);
    while (!ticket.done) advance(lock);
    led_ = false;
    changed_.notify_all();
  }
  if (ticket.error) std::rethrow_exception(ticket.error);
  return ticket.writer.answers();
}

void SharedBatch::wait_for_more(std::unique_lock<std::mutex>& lock) {
  if (!(limits_.delay_ms > 0)) return;
  const auto delay = std::chrono::duration<double, std::milli>(limits_.delay_ms);
  const auto deadline = waiting_.front()->since + std::chrono::duration_cast<Clock::duration>(delay);
  changed_.wait_until(lock, deadline, [this] {
    int64_t rows = 0, longest = 0;
    for (const Ticket* ticket : waiting_) {
      rows += static_cast<int64_t>(ticket->writer.rows());
      longest = std::max(longest, ticket->search.max_length);
    }
    return rows * longest >= limits_.tokens;
  });
}

// Takes from the front of the queue what fits beside the rows that are under way. The first of a batch always does.
std::vector<SharedBatch::Ticket*> SharedBatch::admit() {
  int64_t rows = 0, at_most = 0, longest = 0, tokens = 0;
  const auto count = [&](const Ticket& ticket) {
    const auto its = static_cast<int64_t>(ticket.writer.rows());
    rows += its;
    at_most = std::max(at_most, ticket.search.max_length);
    longest = std::max(longest, ticket.writer.length());
    tokens += its * ticket.writer.length();
  };
  for (const Ticket* ticket : active_) count(*ticket);
  std::vector<Ticket*> admitted;
  while (!waiting_.empty()) {
    count(*waiting_.front());
    const bool fits = rows * at_most <= limits_.tokens && little_padding(rows, longest, tokens);
    if (!fits && !(active_.empty() && admitted.empty())) break;
    admitted.push_back(waiting_.front());
    waiting_.pop_front();
  }
  return admitted;
}

void SharedBatch::advance(std::unique_lock<std::mutex>& lock) {
  const std::vector<Ticket*> fresh = admit();
  lock.unlock();
  try {
    begin(fresh);
    leave();
    if (!active_.empty()) step();
    leave();
  } catch (...) {
    // Whoever is in the batch has lost its state.
    for (Ticket* ticket : fresh) {
      const auto in = [ticket](const std::vector<Ticket*>& list) {
        return std::find(list.begin(), list.end(), ticket) != list.end();
      };
      if (!in(active_) && !in(ended_)) active_.push_back(ticket);
    }
    for (Ticket* ticket : active_) {
      if (!ticket->error) ticket->error = std::current_exception();
    }
    ended_.insert(ended_.end(), active_.begin(), active_.end());
    active_.clear();
    run_.reset();
  }
  lock.lock();
  if (ended_.empty()) return;
  for (Ticket* ticket : ended_) ticket->done = true;
  ended_.clear();
  changed_.notify_all();
}

// From prompts to their first tokens, those of about one length at a time.
void SharedBatch::begin(const std::vector<Ticket*>& tickets) {
  std::vector<Ticket*> order = tickets, together;
  std::stable_sort(order.begin(), order.end(),
                   [](const Ticket* a, const Ticket* b) { return a->search.prompt > b->search.prompt; });
  int64_t rows = 0, tokens = 0;
  for (Ticket* ticket : order) {
    const auto its = static_cast<int64_t>(ticket->search.starts.size());
    rows += its;
    tokens += its * ticket->search.prompt;
    if (!together.empty() && !little_padding(rows, together.front()->search.prompt, tokens)) {
      prefill(together);
      together.clear();
      rows = its;
      tokens = its * ticket->search.prompt;
    }
    together.push_back(ticket);
  }
  if (!together.empty()) prefill(together);
}

void SharedBatch::prefill(const std::vector<Ticket*>& tickets) {
  std::vector<std::span<const int64_t>> texts;
  std::vector<int64_t> rows;  // of the prompts, each as often as it has answers
  for (const Ticket* ticket : tickets) {
    for (const Start& start : ticket->search.starts) {
      rows.insert(rows.end(), static_cast<size_t>(ticket->search.config.num_return_sequences),
                  static_cast<int64_t>(texts.size()));
      texts.emplace_back(start.ids);
    }
  }
  TokenRun run(model_);
  Tensor scores;
  try {
    scores = run.step(padded(texts, tickets.front()->search.pad, true), {});
  } catch (...) {
    // One prompt's fault (an id that the model doesn't know) is nobody else's.
    if (tickets.size() > 1) {
      for (Ticket* ticket : tickets) prefill({ticket});
    } else {
      tickets.front()->error = std::current_exception();
      ended_.push_back(tickets.front());
    }
    return;
  }
  if (rows.size() != texts.size()) {
    run.select(rows);
    scores = runtime::rows_of(scores, 0, rows);
  }
  if (run_) {
    run_->append(run);
  } else {
    run_.emplace(std::move(run));
  }
  size_t first = 0;
  for (Ticket* ticket : tickets) {
    active_.push_back(ticket);
    choose(*ticket, scores, first);
    first += ticket->writer.rows();
  }
}

void SharedBatch::step() {
  std::vector<int64_t> next;
  for (const Ticket* ticket : active_) next.insert(next.end(), ticket->next.begin(), ticket->next.end());
  const auto rows = static_cast<int64_t>(next.size());
  const Tensor scores = run_->step({std::move(next), {}, rows, 1}, {});
  size_t first = 0;
  for (Ticket* ticket : active_) {
    choose(*ticket, scores, first);
    first += ticket->writer.rows();
  }
}

// A ticket that is done has no next tokens.
void SharedBatch::choose(Ticket& ticket, const Tensor& scores, size_t first) {
  ticket.next.clear();
  try {
    if (ticket.search.call.cancel && ticket.search.call.cancel->cancelled())
      throw Error(ErrorCode::cancelled, "the call was cancelled");
    std::vector<int64_t> next = ticket.writer.choose(scores, {}, first);
    if (ticket.writer.take(next)) ticket.next = std::move(next);
  } catch (...) {
    ticket.error = std::current_exception();
  }
}

// Those that are done go, and their rows out of the run.
void SharedBatch::leave() {
  std::vector<Ticket*> rest;
  std::vector<int64_t> rows;
  int64_t first = 0;
  for (Ticket* ticket : active_) {
    const auto count = static_cast<int64_t>(ticket->writer.rows());
    if (ticket->next.empty()) {
      ended_.push_back(ticket);
    } else {
      rest.push_back(ticket);
      for (int64_t r = first; r < first + count; ++r) rows.push_back(r);
    }
    first += count;
  }
  if (rest.size() == active_.size()) return;
  active_ = std::move(rest);
  if (active_.empty()) {
    run_.reset();
  } else {
    run_->select(rows);
  }
}

}  // namespace transmuter::generation
