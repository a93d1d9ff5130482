// Who listens, and how events get there.
#include <exception>
#include <mutex>
#include <utility>

#include "telemetry/span.h"

namespace transmuter::telemetry {

constinit std::atomic<Kinds> wanted_kinds{0};

class Listener {
 public:
  Listener(Subscriber subscriber, Kinds kinds) : subscriber_(std::move(subscriber)), kinds_(kinds) {}

  Kinds kinds() const { return kinds_; }

  void call(const Event& event) noexcept {
    if (!(kinds_ >> static_cast<unsigned>(event.kind) & 1)) return;
    calls_.fetch_add(1);
    if (!stopped_.load()) {
      try {
        subscriber_(event);
      } catch (const std::exception& error) {
        failed(error.what());
      } catch (...) {
        failed("no std::exception");
      }
    }
    if (calls_.fetch_sub(1) == 1) calls_.notify_all();
  }

  void stop() { stopped_.store(true); }
  void wait() {
    for (int calls = calls_.load(); calls != 0; calls = calls_.load()) calls_.wait(calls);
  }

  int64_t failures() const { return failures_.load(); }
  std::string first_failure() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return first_failure_;
  }

 private:
  void failed(const char* what) noexcept {
    if (failures_.fetch_add(1) > 0) return;
    try {
      const std::lock_guard<std::mutex> lock(mutex_);
      first_failure_ = what;
    } catch (...) {  // no memory for the text: the count says enough
    }
  }

  const Subscriber subscriber_;
  const Kinds kinds_;
  std::atomic<int> calls_{0};  // that run now
  std::atomic<bool> stopped_{false};
  std::atomic<int64_t> failures_{0};
  mutable std::mutex mutex_;
  std::string first_failure_;
};

namespace {

using Listeners = std::vector<std::shared_ptr<Listener>>;

// Never destroyed: threads may tell of something while the process ends.
struct Bus {
  std::mutex mutex;
  std::shared_ptr<const Listeners> listeners = std::make_shared<const Listeners>();

  std::shared_ptr<const Listeners> all() {
    const std::lock_guard<std::mutex> lock(mutex);
    return listeners;
  }
  // With the mutex held.
  void replace(Listeners next) {
    Kinds wanted = 0;
    for (const auto& listener : next) wanted |= listener->kinds();
    listeners = std::make_shared<const Listeners>(std::move(next));
    wanted_kinds.store(wanted, std::memory_order_relaxed);
  }
};

Bus& bus() {
  static Bus* const bus = new Bus;
  return *bus;
}

// An event that outlives the call that made it.
struct Kept {
  explicit Kept(const Event& from)
      : event(from), name(from.name), attributes(from.attributes.begin(), from.attributes.end()) {
    texts.reserve(attributes.size());  // views into them stay valid
    for (Attribute& attribute : attributes) {
      if (auto* text = std::get_if<std::string_view>(&attribute.value)) *text = texts.emplace_back(*text);
    }
  }
  Event told() const {
    Event out = event;
    out.name = name;
    out.attributes = attributes;
    return out;
  }

  Event event;
  std::string name;
  std::vector<Attribute> attributes;
  std::vector<std::string> texts;
};

struct ThisThread {
  uint64_t number = 0, span = 0;
  int deferrals = 0;
  bool telling = false;  // inside of a subscriber
  std::vector<std::unique_ptr<const Kept>> waiting;
};

ThisThread& here() {
  thread_local ThisThread state;
  return state;
}

void hand_out(const Event& event) noexcept {
  ThisThread& thread = here();
  const std::shared_ptr<const Listeners> listeners = bus().all();
  thread.telling = true;
  for (const auto& listener : *listeners) listener->call(event);
  thread.telling = false;
}

}  // namespace

uint64_t this_thread() {
  static std::atomic<uint64_t> threads{0};
  uint64_t& number = here().number;
  if (number == 0) number = threads.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

uint64_t current_span() { return here().span; }

uint64_t new_id() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void emit(const Event& event) noexcept {
  ThisThread& thread = here();
  if (thread.telling) return;
  if (thread.deferrals == 0) return hand_out(event);
  try {
    thread.waiting.push_back(std::make_unique<const Kept>(event));
  } catch (...) {  // no memory to keep it: it is lost, the run goes on
  }
}

void Deferred::begin() {
  ++here().deferrals;
  begun_ = true;
}

void Deferred::end() {
  ThisThread& thread = here();
  if (--thread.deferrals > 0) return;
  const auto waiting = std::exchange(thread.waiting, {});
  for (const auto& kept : waiting) hand_out(kept->told());
}

struct Span::Data {
  Event event;
  uint64_t before = 0;  // the span that was open
  int exceptions = 0;
  std::vector<std::pair<const char*, std::variant<int64_t, double, std::string>>> attributes;
};

void Span::Delete::operator()(Data* data) const { delete data; }

void Span::begin(Kind kind, const char* named) {
  ThisThread& thread = here();
  if (thread.telling) return;
  data_.reset(new Data);
  data_->event.kind = kind;
  data_->event.name = named ? named : telemetry::name(kind);
  data_->event.id = new_id();
  data_->event.parent = data_->before = thread.span;
  data_->event.thread = this_thread();
  data_->exceptions = std::uncaught_exceptions();
  thread.span = data_->event.id;
  data_->event.start = std::chrono::steady_clock::now();
}

void Span::add(const char* key, int64_t value) {
  if (data_) data_->attributes.emplace_back(key, value);
}

void Span::add(const char* key, std::string value) {
  if (data_) data_->attributes.emplace_back(key, std::move(value));
}

void Span::end() noexcept {
  Event& event = data_->event;
  event.duration = std::chrono::steady_clock::now() - event.start;
  event.failed = std::uncaught_exceptions() > data_->exceptions;
  here().span = data_->before;
  try {
    std::vector<Attribute> attributes;
    attributes.reserve(data_->attributes.size());
    for (const auto& [key, value] : data_->attributes) {
      attributes.push_back({key, {}});
      if (const auto* text = std::get_if<std::string>(&value))
        attributes.back().value = std::string_view(*text);
      else if (const auto* number = std::get_if<int64_t>(&value))
        attributes.back().value = *number;
      else
        attributes.back().value = std::get<double>(value);
    }
    event.attributes = attributes;
    emit(event);
  } catch (...) {  // no memory to tell of it
  }
}

void tell(Kind kind, const char* named, std::initializer_list<Attribute> attributes) noexcept {
  Event event;
  event.kind = kind;
  event.name = named;
  event.parent = current_span();
  event.thread = this_thread();
  event.start = std::chrono::steady_clock::now();
  event.attributes = {attributes.begin(), attributes.size()};
  emit(event);
}

const char* name(Kind kind) {
  static constexpr const char* kNames[kKinds] = {"load",  "trace", "compile", "bind", "run",   "segment", "graph_break",
                                                 "stage", "step",  "hit",     "miss", "evict", "memory",  "note"};
  return kNames[static_cast<size_t>(kind)];
}

const Attribute* Event::find(std::string_view key) const {
  for (const Attribute& attribute : attributes)
    if (attribute.key == key) return &attribute;
  return nullptr;
}

int64_t Event::integer(std::string_view key, int64_t otherwise) const {
  const Attribute* found = find(key);
  const int64_t* value = found ? std::get_if<int64_t>(&found->value) : nullptr;
  return value ? *value : otherwise;
}

std::string_view Event::text(std::string_view key) const {
  const Attribute* found = find(key);
  const std::string_view* value = found ? std::get_if<std::string_view>(&found->value) : nullptr;
  return value ? *value : std::string_view();
}

Subscription subscribe(Subscriber subscriber, Kinds kinds) {
  Subscription subscription;
  subscription.listener_ = std::make_shared<Listener>(std::move(subscriber), kinds & kAll);
  Bus& all = bus();
  const std::lock_guard<std::mutex> lock(all.mutex);
  Listeners next = *all.listeners;
  next.push_back(subscription.listener_);
  all.replace(std::move(next));
  return subscription;
}

Subscription& Subscription::operator=(Subscription&& other) noexcept {
  if (this != &other) {
    stop();
    listener_ = std::move(other.listener_);
  }
  return *this;
}

void Subscription::stop() {
  if (!listener_) return;
  {
    Bus& all = bus();
    const std::lock_guard<std::mutex> lock(all.mutex);
    Listeners next = *all.listeners;
    std::erase(next, listener_);
    all.replace(std::move(next));
  }
  listener_->stop();
  if (!here().telling) listener_->wait();
  listener_.reset();
}

int64_t Subscription::failures() const { return listener_ ? listener_->failures() : 0; }
std::string Subscription::first_failure() const { return listener_ ? listener_->first_failure() : ""; }

}  // namespace transmuter::telemetry
