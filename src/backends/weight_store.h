// What the executables of one model share: weights prepared for a backend, by what they were made from. A model has one
// for each backend, so all of its compiled models share them, too.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "telemetry/counters.h"
#include "transmuter/tensor.h"

namespace transmuter {

// What an entry takes: a function stored_size(const T&) beside the type says it. Where there is none, it counts
// nothing.
struct StoredSize {
  std::string elements;  // their type
  int64_t bytes = 0;
};
inline StoredSize stored_size(const Tensor& tensor) {
  return {name(tensor.dtype()), static_cast<int64_t>(tensor.nbytes())};
}

class WeightStore {
 public:
  // The entry under `key`, made by `make` if there is none; lives as long as somebody holds it. `source`: the weight
  // that it is made from, whose address is in the key; it is kept as long, so that the address means nothing else. Made
  // once, however many threads ask: the others wait. When `make` throws, the next to ask tries again.
  template <class T, class Make>
  std::shared_ptr<const T> get(const std::string& key, const Make& make) {
    return get<T>(key, Tensor(), make);
  }
  template <class T, class Make>
  std::shared_ptr<const T> get(const std::string& key, const Tensor& source, const Make& make) {
    const std::shared_ptr<Entry> entry = entry_of(key);
    const std::lock_guard<std::mutex> lock(entry->mutex);
    if (auto found = std::static_pointer_cast<const T>(entry->made.lock())) return found;
    struct Held {
      std::shared_ptr<const T> made;
      Tensor source;
      Booking booking;
    };
    std::shared_ptr<const T> fresh = make();
    StoredSize size;
    if constexpr (requires { stored_size(*fresh); }) size = stored_size(*fresh);
    Booking booking(sizes_, std::move(size));
    const auto held = std::make_shared<const Held>(Held{std::move(fresh), source, std::move(booking)});
    std::shared_ptr<const T> made(held, held->made.get());
    entry->made = made;
    return made;
  }

  // Bytes held now, by the type of their elements. Waits for nobody who packs.
  std::map<std::string, int64_t> sizes() const {
    const std::lock_guard<std::mutex> lock(sizes_->mutex);
    return sizes_->bytes;
  }

  // Forgets the names of what nobody holds any more.
  void forget_gone() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(entries_, [](const auto& entry) {
      if (entry.second.use_count() > 1) return false;
      const std::lock_guard<std::mutex> last_user(entry.second->mutex);
      return entry.second->made.expired();
    });
  }

 private:
  struct Sizes {
    std::mutex mutex;
    std::map<std::string, int64_t> bytes;
  };
  // What an entry adds to the sizes while it lives.
  class Booking {
   public:
    Booking(std::shared_ptr<Sizes> sizes, StoredSize size)
        : sizes_(std::move(sizes)), size_(std::move(size)), held_(telemetry::Memory::prepared, size_.bytes) {
      const std::lock_guard<std::mutex> lock(sizes_->mutex);
      if (size_.bytes) sizes_->bytes[size_.elements] += size_.bytes;
    }
    Booking(Booking&&) noexcept = default;
    ~Booking() {
      if (!sizes_ || !size_.bytes) return;
      const std::lock_guard<std::mutex> lock(sizes_->mutex);
      const auto sum = sizes_->bytes.find(size_.elements);
      if ((sum->second -= size_.bytes) == 0) sizes_->bytes.erase(sum);
    }

   private:
    std::shared_ptr<Sizes> sizes_;
    StoredSize size_;
    telemetry::HeldBytes held_;
  };

  struct Entry {
    std::mutex mutex;
    std::weak_ptr<const void> made;
  };
  std::shared_ptr<Entry> entry_of(const std::string& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::shared_ptr<Entry>& entry = entries_[key];
    if (!entry) entry = std::make_shared<Entry>();
    return entry;
  }

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
  std::shared_ptr<Sizes> sizes_ = std::make_shared<Sizes>();
};

}  // namespace transmuter
