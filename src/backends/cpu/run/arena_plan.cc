#include "backends/cpu/run/arena_plan.h"

#include <algorithm>
#include <utility>

namespace transmuter::cpu {

namespace {

constexpr int64_t kAlignment = 64;

int64_t size_in_arena(const BoundBuffer& buffer) {
  return (std::max<int64_t>(buffer.bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

// The free blocks of an arena that grows at its end, by their offsets; neighbours are joined. There are seldom more
// than a few dozen, so they are looked through.
class FreeBlocks {
 public:
  int64_t take(int64_t size) {
    size_t best = blocks_.size();
    for (size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i].size >= size && (best == blocks_.size() || blocks_[i].size < blocks_[best].size)) best = i;
    }
    if (best < blocks_.size()) {
      Block& block = blocks_[best];
      const int64_t offset = block.offset;
      block.offset += size;
      block.size -= size;
      if (block.size == 0) blocks_.erase(blocks_.begin() + static_cast<ptrdiff_t>(best));
      return offset;
    }
    int64_t offset = top_;
    if (!blocks_.empty() && blocks_.back().offset + blocks_.back().size == top_) {  // the block at the end grows
      offset = blocks_.back().offset;
      blocks_.pop_back();
    }
    top_ = offset + size;
    return offset;
  }

  void give_back(int64_t offset, int64_t size) {
    const auto next = std::lower_bound(blocks_.begin(), blocks_.end(), offset,
                                       [](const Block& block, int64_t at) { return block.offset < at; });
    const bool joins_next = next != blocks_.end() && next->offset == offset + size;
    const bool joins_before = next != blocks_.begin() && (next - 1)->offset + (next - 1)->size == offset;
    if (joins_before) {
      (next - 1)->size += size;
      if (!joins_next) return;
      (next - 1)->size += next->size;
      blocks_.erase(next);
    } else if (joins_next) {
      next->offset = offset;
      next->size += size;
    } else {
      blocks_.insert(next, {offset, size});
    }
  }

  int64_t top() const { return top_; }

 private:
  struct Block {
    int64_t offset, size;
  };
  std::vector<Block> blocks_;
  int64_t top_ = 0;
};

}  // namespace

int64_t place_buffers(std::vector<BoundBuffer>& buffers, size_t launches) {
  // The buffers that begin and end with each launch, as lists through them.
  constexpr int32_t kNone = -1;
  std::vector<int32_t> begins(launches, kNone), ends(launches, kNone), next_begin(buffers.size()),
      next_end(buffers.size());
  for (size_t i = buffers.size(); i-- > 0;) {
    const BoundBuffer& buffer = buffers[i];
    if (buffer.kind != BoundBuffer::Kind::arena || buffer.last < 0) continue;
    int32_t& begin = begins[static_cast<size_t>(buffer.first)];
    int32_t& end = ends[static_cast<size_t>(buffer.last)];
    next_begin[i] = std::exchange(begin, static_cast<int32_t>(i));
    next_end[i] = std::exchange(end, static_cast<int32_t>(i));
  }
  FreeBlocks free;
  for (size_t launch = 0; launch < launches; ++launch) {
    for (int32_t i = begins[launch]; i != kNone; i = next_begin[static_cast<size_t>(i)]) {
      BoundBuffer& buffer = buffers[static_cast<size_t>(i)];
      buffer.offset = free.take(size_in_arena(buffer));
    }
    for (int32_t i = ends[launch]; i != kNone; i = next_end[static_cast<size_t>(i)]) {
      const BoundBuffer& buffer = buffers[static_cast<size_t>(i)];
      free.give_back(buffer.offset, size_in_arena(buffer));
    }
  }
  return free.top();
}

}  // namespace transmuter::cpu
