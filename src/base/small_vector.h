// A vector of trivially copyable elements whose first N live in the object itself.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>

namespace transmuter {

template <class T, size_t N>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SmallVector() = default;
  SmallVector(const SmallVector& other) { assign(other.data_, other.size_); }
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) assign(other.data_, other.size_);
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) take(other);
    return *this;
  }

  void assign(const T* values, size_t count) {
    size_ = 0;
    if (count > capacity_) grow(count);
    if (count) std::memcpy(static_cast<void*>(data_), values, count * sizeof(T));
    size_ = count;
  }
  void push_back(T value) {
    if (size_ == capacity_) grow(2 * capacity_);
    data_[size_++] = value;
  }
  void pop_back() { --size_; }
  void erase(size_t index) {
    std::memmove(static_cast<void*>(data_ + index), data_ + index + 1, (size_ - index - 1) * sizeof(T));
    --size_;
  }
  void clear() { size_ = 0; }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  void grow(size_t capacity) {
    std::unique_ptr<T[]> bigger(new T[capacity]);
    if (size_) std::memcpy(static_cast<void*>(bigger.get()), data_, size_ * sizeof(T));
    heap_ = std::move(bigger);
    data_ = heap_.get();
    capacity_ = capacity;
  }
  void take(SmallVector& other) {
    if (other.heap_) {
      heap_ = std::move(other.heap_);
      data_ = heap_.get();
      size_ = other.size_;
      capacity_ = other.capacity_;
      other.data_ = other.inline_;
      other.size_ = 0;
      other.capacity_ = N;
    } else {
      assign(other.data_, other.size_);
    }
  }

  T inline_[N];
  T* data_ = inline_;
  size_t size_ = 0;
  size_t capacity_ = N;
  std::unique_ptr<T[]> heap_;
};

}  // namespace transmuter
