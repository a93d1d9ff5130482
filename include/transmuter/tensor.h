// Tensor: reference-counted, dense, row-major storage with a dtype and a shape. Copying a Tensor shares its storage.
// What a compiled model gave may still lie where its backend has it (a cache with room to grow): its elements come
// here, dense, when they are first looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace transmuter {

// Element types, as ONNX and StableHLO name them. i2, i4, u2, u4 and f4e2m1 are packed, low bits first; the six-bit
// floats have a byte each in memory (four in three bytes in files).
enum class DType : uint8_t {
  invalid,
  boolean,
  i2,
  i4,
  i8,
  i16,
  i32,
  i64,
  u2,
  u4,
  u8,
  u16,
  u32,
  u64,
  f4e2m1,
  f6e2m3,
  f6e3m2,
  f8e4m3fn,
  f8e4m3fnuz,
  f8e5m2,
  f8e5m2fnuz,
  f8e8m0,
  bf16,
  f16,
  f32,
  f64,
  c64,
  c128,
  string,
};

const char* name(DType dtype);          // "float32", "int4", "string", ... (NumPy and ml_dtypes words)
int bit_width(DType dtype);             // 1 element in memory, in bits; bool 8, string 0
bool is_float(DType dtype);             // f4 ... f64, not complex
bool is_signed_integer(DType dtype);    // i2 ... i64
bool is_unsigned_integer(DType dtype);  // u2 ... u64
bool is_integer(DType dtype);           // signed or unsigned, not bool
bool is_complex(DType dtype);
bool is_packed(DType dtype);  // fewer than eight bits an element
// Bytes of `count` elements, packed dtypes rounded up. Throws Error on overflow.
size_t byte_size(DType dtype, int64_t count);

using Shape = std::vector<int64_t>;
// Product of the extents. Throws Error on overflow or a negative extent.
int64_t element_count(const Shape& shape);

// The C++ type of an element has a DType: dtype_of<float> is f32. Half, f8 and packed types have none.
template <class T>
inline constexpr DType dtype_of = DType::invalid;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;
template <>
inline constexpr DType dtype_of<int8_t> = DType::i8;
template <>
inline constexpr DType dtype_of<int16_t> = DType::i16;
template <>
inline constexpr DType dtype_of<int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<uint16_t> = DType::u16;
template <>
inline constexpr DType dtype_of<uint32_t> = DType::u32;
template <>
inline constexpr DType dtype_of<uint64_t> = DType::u64;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;

class Elsewhere;  // tensor/elsewhere.h

class Tensor {
 public:
  Tensor() = default;  // dtype() == invalid: no tensor

  // New storage, 64-byte aligned, not initialised (strings are empty).
  Tensor(DType dtype, Shape shape);
  // Elements copied from `values`; throws Error if their number is not the shape's.
  template <class T>
  Tensor(const std::vector<T>& values, Shape shape)
      : Tensor(copy_of(dtype_of<T>, values.data(), values.size(), std::move(shape))) {}
  static Tensor scalar(int64_t value) { return Tensor(std::vector<int64_t>{value}, {}); }
  static Tensor scalar(float value) { return Tensor(std::vector<float>{value}, {}); }
  static Tensor of_strings(std::vector<std::string> values, Shape shape);
  // All bytes zero.
  static Tensor zeros(DType dtype, Shape shape);
  // Memory that someone else keeps: `owner` lives as long as any view. The address may be unaligned; the bytes are
  // never written.
  static Tensor view(DType dtype, Shape shape, const std::byte* bytes, std::shared_ptr<const void> owner);

  // Elements that lie elsewhere until somebody looks at them.
  static Tensor deferred(DType dtype, Shape shape, std::shared_ptr<const Elsewhere> elements);

  explicit operator bool() const { return dtype_ != DType::invalid; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t rank() const { return static_cast<int64_t>(shape_.size()); }
  int64_t dim(int64_t axis) const { return shape_[static_cast<size_t>(axis)]; }
  int64_t size() const { return size_; }  // number of elements
  size_t nbytes() const { return byte_size(dtype_, size_); }

  const std::byte* bytes() const { return elsewhere_ ? fetched() : bytes_; }
  // Storage that this tensor alone owns and may write. Throws Error for a view or a shared storage.
  std::byte* mutable_bytes();
  bool unique() const;
  // Where the elements lie if not here; null: here.
  const std::shared_ptr<const Elsewhere>& elsewhere() const { return elsewhere_; }
  // Says that the memory was given to a run (Value::donated), to everyone who holds it, and whether it was.
  void mark_donated() const;
  bool was_donated() const;
  // The address suits the dtype; typed access needs it.
  bool is_aligned() const;
  // This tensor, or a copy of it at an aligned address.
  Tensor aligned() const;

  // Typed access. Throws Error when T is not the dtype's element type, or the address is unaligned.
  template <class T>
  const T* data() const {
    check_access(dtype_of<T>);
    return reinterpret_cast<const T*>(bytes());
  }
  template <class T>
  T* mutable_data() {
    check_access(dtype_of<T>);
    return reinterpret_cast<T*>(mutable_bytes());
  }
  template <class T>
  std::vector<T> to_vector() const {
    const T* first = data<T>();
    return std::vector<T>(first, first + size_);
  }
  const std::vector<std::string>& strings() const;
  std::vector<std::string>& mutable_strings();

  // The same elements under another shape of equal size, sharing storage.
  Tensor reshaped(Shape shape) const;
  // The same bits under another dtype of equal width, sharing storage.
  Tensor bitcast(DType dtype) const;
  // Every element converted: float to integer truncates and saturates, NaN gives 0; integers wrap around.
  Tensor cast(DType dtype) const;
  // A copy with storage of its own.
  Tensor clone() const;

 private:
  static Tensor copy_of(DType dtype, const void* values, size_t count, Shape shape);
  void check_access(DType requested) const;
  const std::byte* fetched() const;

  DType dtype_ = DType::invalid;
  bool writable_ = false;
  Shape shape_;
  int64_t size_ = 0;
  std::byte* bytes_ = nullptr;
  std::shared_ptr<void> storage_;
  std::shared_ptr<const Elsewhere> elsewhere_;
};

std::string describe(const Tensor& tensor);  // "float32 [2, 3]"

}  // namespace transmuter
