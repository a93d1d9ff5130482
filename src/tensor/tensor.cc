#include "transmuter/tensor.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/memory.h"
#include "base/strings.h"
#include "tensor/elsewhere.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

constexpr size_t kAlignment = 64;

// Frees what allocate() gave. All who share the memory see the mark.
struct FreeMemory {
  FreeMemory() = default;
  FreeMemory(const FreeMemory&) : FreeMemory() {}  // only before the memory is shared
  void operator()(void* memory) const { std::free(memory); }
  std::atomic<bool> donated = false;
};

// At least one byte, so that an empty tensor has an address too.
std::shared_ptr<void> allocate(size_t bytes, const Shape& shape, DType dtype) {
  const size_t rounded = (bytes / kAlignment + 1) * kAlignment;
  void* memory = memory_is_there(rounded) ? std::aligned_alloc(kAlignment, rounded) : nullptr;
  if (!memory)
    throw Error(ErrorCode::out_of_memory, str("no memory for ", name(dtype), " ", shape, " (", bytes, " bytes)"));
  return std::shared_ptr<void>(memory, FreeMemory());
}

size_t alignment(DType dtype) {
  const int bits = bit_width(dtype);
  return bits <= 8 ? 1 : static_cast<size_t>(bits) / 8;
}

}  // namespace

Tensor::Tensor(DType dtype, Shape shape) : dtype_(dtype), writable_(true), shape_(std::move(shape)) {
  if (dtype == DType::invalid) throw Error(ErrorCode::internal, "a tensor needs a dtype");
  size_ = element_count(shape_);
  if (dtype == DType::string) {
    storage_ = std::make_shared<std::vector<std::string>>(static_cast<size_t>(size_));
    return;
  }
  storage_ = allocate(byte_size(dtype, size_), shape_, dtype);
  bytes_ = static_cast<std::byte*>(storage_.get());
}

Tensor Tensor::copy_of(DType dtype, const void* values, size_t count, Shape shape) {
  if (element_count(shape) != static_cast<int64_t>(count))
    throw Error(ErrorCode::invalid_input, str(count, " values do not fill shape ", shape));
  Tensor result(dtype, std::move(shape));
  if (count) std::memcpy(result.bytes_, values, result.nbytes());
  return result;
}

Tensor Tensor::of_strings(std::vector<std::string> values, Shape shape) {
  const int64_t count = element_count(shape);
  if (count != static_cast<int64_t>(values.size()))
    throw Error(ErrorCode::invalid_input, str(values.size(), " values do not fill shape ", shape));
  Tensor result;
  result.dtype_ = DType::string;
  result.writable_ = true;
  result.shape_ = std::move(shape);
  result.size_ = count;
  result.storage_ = std::make_shared<std::vector<std::string>>(std::move(values));
  return result;
}

Tensor Tensor::zeros(DType dtype, Shape shape) {
  Tensor result(dtype, std::move(shape));
  if (result.bytes_) std::memset(result.bytes_, 0, result.nbytes());
  return result;
}

Tensor Tensor::view(DType dtype, Shape shape, const std::byte* bytes, std::shared_ptr<const void> owner) {
  if (dtype == DType::string || dtype == DType::invalid)
    throw Error(ErrorCode::internal, str("no view of ", name(dtype), " elements"));
  Tensor result;
  result.dtype_ = dtype;
  result.size_ = element_count(shape);
  byte_size(dtype, result.size_);  // checks for overflow
  result.shape_ = std::move(shape);
  // Never written through: writable_ stays false.
  result.bytes_ = const_cast<std::byte*>(bytes);
  result.storage_ = std::const_pointer_cast<void>(std::move(owner));
  return result;
}

Tensor Tensor::deferred(DType dtype, Shape shape, std::shared_ptr<const Elsewhere> elements) {
  Tensor result;
  result.dtype_ = dtype;
  result.size_ = element_count(shape);
  result.shape_ = std::move(shape);
  result.elsewhere_ = std::move(elements);
  return result;
}

const std::byte* Tensor::fetched() const { return elsewhere_->dense().bytes(); }

bool Tensor::unique() const {
  return elsewhere_ ? elsewhere_.use_count() == 1 : writable_ && storage_.use_count() == 1;
}

void Tensor::mark_donated() const {
  if (elsewhere_) return elsewhere_->mark_donated();
  if (auto* memory = std::get_deleter<FreeMemory>(storage_)) memory->donated = true;
}

bool Tensor::was_donated() const {
  if (elsewhere_) return elsewhere_->was_donated();
  const auto* memory = std::get_deleter<FreeMemory>(storage_);
  return memory && memory->donated;
}

std::byte* Tensor::mutable_bytes() {
  if (elsewhere_) {
    if (!unique()) throw Error(ErrorCode::internal, "a shared tensor is not writable");
    *this = clone();
  }
  if (!bytes_) throw Error(ErrorCode::internal, str("a tensor of ", name(dtype_), " has no bytes to write"));
  if (!writable_) throw Error(ErrorCode::internal, "a view of foreign memory is not writable");
  if (storage_.use_count() != 1) throw Error(ErrorCode::internal, "a shared tensor is not writable");
  return bytes_;
}

bool Tensor::is_aligned() const {
  return elsewhere_ || (dtype_ != DType::string && reinterpret_cast<uintptr_t>(bytes_) % alignment(dtype_) == 0);
}

Tensor Tensor::aligned() const { return dtype_ == DType::string || is_aligned() ? *this : clone(); }

void Tensor::check_access(DType requested) const {
  if (requested != dtype_ || dtype_ == DType::invalid)
    throw Error(ErrorCode::invalid_input, str("typed access as ", name(requested), " to a tensor of ", name(dtype_)));
  if (!is_aligned()) throw Error(ErrorCode::internal, "typed access to an unaligned tensor; take aligned() first");
}

const std::vector<std::string>& Tensor::strings() const {
  if (dtype_ != DType::string)
    throw Error(ErrorCode::invalid_input, str("access to strings in a tensor of ", name(dtype_)));
  return *static_cast<const std::vector<std::string>*>(storage_.get());
}

std::vector<std::string>& Tensor::mutable_strings() {
  strings();  // checks
  if (storage_.use_count() != 1) throw Error(ErrorCode::internal, "a shared tensor is not writable");
  return *static_cast<std::vector<std::string>*>(storage_.get());
}

Tensor Tensor::reshaped(Shape shape) const {
  if (element_count(shape) != size_)
    throw Error(ErrorCode::invalid_input, str("shape ", shape_, " cannot become ", shape, ": element counts differ"));
  Tensor result = elsewhere_ ? elsewhere_->dense() : *this;
  result.shape_ = std::move(shape);
  return result;
}

Tensor Tensor::bitcast(DType dtype) const {
  if (bit_width(dtype) != bit_width(dtype_) || (dtype != dtype_ && bit_width(dtype) == 0))
    throw Error(ErrorCode::invalid_input, str("the bits of ", name(dtype_), " are not ", name(dtype), "'s"));
  Tensor result = elsewhere_ ? elsewhere_->dense() : *this;
  result.dtype_ = dtype;
  return result;
}

Tensor Tensor::clone() const {
  if (dtype_ == DType::invalid) return {};
  if (dtype_ == DType::string) return of_strings(strings(), shape_);
  Tensor result(dtype_, shape_);
  if (size_) std::memcpy(result.bytes_, bytes(), nbytes());
  return result;
}

std::string describe(const Tensor& tensor) { return str(name(tensor.dtype()), " ", tensor.shape()); }

}  // namespace transmuter
