// What the executables of one model share: weights prepared for a backend, by what they were made from. A model has one
// for each backend, so all of its compiled models share them, too.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "transmuter/tensor.h"

namespace transmuter {

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
    };
    const auto held = std::make_shared<const Held>(Held{make(), source});
    std::shared_ptr<const T> made(held, held->made.get());
    entry->made = made;
    return made;
  }

 private:
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
};

}  // namespace transmuter
