// How the library tells of what it does: spans, instants, and events that wait until no lock is held.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "transmuter/telemetry.h"

namespace transmuter::telemetry {

// Hands an event to those who listen to its kind, or keeps it for the end of a Deferred. Nothing happens where the
// thread is inside of a subscriber. Throws nothing.
void emit(const Event& event) noexcept;

// The number of the calling thread, and of the span that is open on it (0: none).
uint64_t this_thread();
uint64_t current_span();
uint64_t new_id();

// While one lives, events of its thread wait; the last to go hands them out. Stands before a lock that would be held
// while something is told: a subscriber may call the model again.
class Deferred {
 public:
  Deferred() {
    if (wanted_kinds.load(std::memory_order_relaxed)) begin();
  }
  ~Deferred() {
    if (begun_) end();
  }
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;

 private:
  void begin();
  void end();
  bool begun_ = false;
};

// Open from its construction to its destruction, where anybody listens to the kind. What is costly to tell of, is told
// if (span) alone. Keys are literals; so is the name.
class Span {
 public:
  explicit Span(Kind kind, const char* named = nullptr) {
    if (anybody_listens(kind)) begin(kind, named);
  }
  ~Span() {
    if (data_) end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  explicit operator bool() const { return data_ != nullptr; }

  void add(const char* key, int64_t value);
  void add(const char* key, size_t value) { add(key, static_cast<int64_t>(value)); }
  void add(const char* key, std::string value);

 private:
  struct Data;
  struct Delete {
    void operator()(Data* data) const;
  };
  void begin(Kind kind, const char* named);
  void end() noexcept;
  std::unique_ptr<Data, Delete> data_;
};

// An instant; call it where anybody_listens().
void tell(Kind kind, const char* named, std::initializer_list<Attribute> attributes) noexcept;

}  // namespace transmuter::telemetry
