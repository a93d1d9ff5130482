// What the executables of one model share: weights prepared for a backend, by what they were made from.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "transmuter/tensor.h"

namespace transmuter {

struct WeightStore {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<const void>> entries;

  // The entry under `key`, made by `make` if there is none; lives as long as somebody holds it.
  template <class T, class Make>
  std::shared_ptr<const T> get(const std::string& key, const Make& make) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (auto found = std::static_pointer_cast<const T>(entries[key].lock())) return found;
    std::shared_ptr<const T> made = make();
    entries[key] = made;
    return made;
  }
};

}  // namespace transmuter
