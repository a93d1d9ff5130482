// Callables in a few large blocks: a plan has hundreds of launches, made and dropped together.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace transmuter::cpu {

class Callables {
 public:
  Callables() = default;
  Callables(Callables&&) = default;
  Callables& operator=(Callables&&) = delete;
  ~Callables() {
    for (const Last& last : lasts_) last.destroy(last.object);
  }

  // Lives as long as this does, at its address.
  template <class Fn>
  const Fn& keep(Fn fn) {
    static_assert(alignof(Fn) <= alignof(std::max_align_t));
    void* place =
        take((sizeof(Fn) + alignof(std::max_align_t) - 1) / alignof(std::max_align_t) * alignof(std::max_align_t));
    const Fn* kept = new (place) Fn(std::move(fn));
    if constexpr (!std::is_trivially_destructible_v<Fn>)
      lasts_.push_back({place, [](void* object) { static_cast<Fn*>(object)->~Fn(); }});
    return *kept;
  }

 private:
  static constexpr size_t kBlock = 16384;
  struct Last {
    void* object;
    void (*destroy)(void*);
  };

  void* take(size_t bytes) {
    if (bytes > left_) {
      left_ = bytes > kBlock ? bytes : kBlock;
      blocks_.emplace_back(new std::byte[left_]);
      next_ = blocks_.back().get();
    }
    void* place = next_;
    next_ += bytes;
    left_ -= bytes;
    return place;
  }

  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* next_ = nullptr;
  size_t left_ = 0;
  std::vector<Last> lasts_;
};

}  // namespace transmuter::cpu
