#include "backends/cpu/kernels/sort.h"

#include <bit>

#include "backends/cpu/kernels/parallel.h"
#include "backends/cpu/kernels/reaching.h"
#include "backends/cpu/kernels/scratch.h"
#include "base/dispatch.h"

namespace transmuter::cpu {
namespace {

// Unsigned keys in the order of the values.
template <class T>
auto key_of(T value) {
  if constexpr (is_small_float<T>) {
    return key_of(to_float(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    using U = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    constexpr U kSign = U{1} << (sizeof(T) * 8 - 1);
    if (value != value) return static_cast<U>(~U{0});
    const U bits = std::bit_cast<U>(value == T{0} ? T{0} : value);
    return static_cast<U>(bits & kSign ? ~bits : bits | kSign);
  } else if constexpr (std::is_same_v<T, bool>) {
    return uint32_t{value};
  } else {
    using U = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    constexpr U kSign = U{1} << (sizeof(U) * 8 - 1);
    return static_cast<U>(std::is_signed_v<T> ? static_cast<U>(value) ^ kSign : static_cast<U>(value));
  }
}

struct Entry {
  uint64_t key;
  int64_t position;
  bool operator<(const Entry& other) const { return key != other.key ? key < other.key : position < other.position; }
};

// The k least of entry(0), ..., entry(n - 1), in order, at the front of memory(count), which gives room for so many.
// Few of many are sifted through a small buffer: what is not less than the k-th least so far is never stored.
// skip(i, most): the first entry from i on that may be less than `most`.
template <class E, class Memory, class Make, class Skip>
E* select_first(int64_t n, int64_t k, const Memory& memory, const Make& entry, const Skip& skip) {
  constexpr int64_t kLeastRoom = 512;
  const int64_t room = std::min(n, std::max(4 * k, kLeastRoom));
  E* kept = memory(room);
  for (int64_t i = 0; i < room; ++i) kept[i] = entry(i);
  int64_t count = room, next = room;
  while (true) {
    if (k < count) std::nth_element(kept, kept + k - 1, kept + count);
    if (next == n) break;
    count = k;
    const E most = kept[k - 1];
    for (next = skip(next, most); next < n && count < room; next = skip(next + 1, most)) {
      const E e = entry(next);
      if (e < most) kept[count++] = e;  // seldom, soon
    }
  }
  std::sort(kept, kept + k);
  return kept;
}

// One line of n elements, `stride` apart in both.
template <class T>
void line(bool largest, const T* in, int64_t n, int64_t stride, int64_t k, T* values, int64_t* positions) {
  using Key = decltype(key_of(T{}));
  const auto write = [&](int64_t i, int64_t position) {
    if (values) values[i * stride] = in[position * stride];
    if (positions) positions[i * stride] = position;
  };
  const auto memory = []<class E>(TypeTag<E>) {
    return [](int64_t count) {
      return static_cast<E*>(thread_scratch(ScratchSlot::task, static_cast<size_t>(count) * sizeof(E)));
    };
  };
  if (sizeof(Key) == 4 && n <= int64_t{UINT32_MAX}) {
    // Key and position in one word: ties settle themselves.
    const Key flip = largest ? static_cast<Key>(~Key{0}) : Key{0};
    const auto word = [&](int64_t i) {
      return uint64_t{static_cast<uint32_t>(key_of(in[i * stride]) ^ flip)} << 32 | static_cast<uint32_t>(i);
    };
    const auto skip = [&](int64_t i, [[maybe_unused]] uint64_t most) {
      if constexpr (std::is_same_v<T, float>) {
        if (stride == 1) return first_reaching(in, i, n, in[static_cast<uint32_t>(most)], largest);
      }
      return i;
    };
    const uint64_t* words = select_first<uint64_t>(n, k, memory(TypeTag<uint64_t>{}), word, skip);
    for (int64_t i = 0; i < k; ++i) write(i, static_cast<int64_t>(static_cast<uint32_t>(words[i])));
    return;
  }
  const Entry* entries = select_first<Entry>(
      n, k, memory(TypeTag<Entry>{}),
      [&](int64_t i) {
        const uint64_t key = key_of(in[i * stride]);
        return Entry{largest ? ~key : key, i};
      },
      [](int64_t i, const Entry&) { return i; });
  for (int64_t i = 0; i < k; ++i) write(i, entries[i].position);
}

}  // namespace

void top_k(bool largest, DType dtype, const void* in, const ReduceShape& s, int64_t k, void* values, int64_t* positions,
           ThreadPool* pool) {
  if (k == 0) return;
  dispatch_real(dtype, "top_k", [&]<class T>(TypeTag<T>) {
    parallel(pool, s.outer * s.inner, grain_for(s.reduce, 4096), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t o = task / s.inner, c = task % s.inner;
        const int64_t to = o * k * s.inner + c;
        line(largest, static_cast<const T*>(in) + o * s.reduce * s.inner + c, s.reduce, s.inner, k,
             values ? static_cast<T*>(values) + to : nullptr, positions ? positions + to : nullptr);
      }
    });
  });
}

}  // namespace transmuter::cpu
