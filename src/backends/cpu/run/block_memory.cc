#include "backends/cpu/run/block_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace transmuter::cpu {
namespace {

constexpr size_t kLine = 64, kLargePage = size_t{2} << 20;
// Untouched pages of a block take no memory, only addresses.
constexpr size_t kBlock = size_t{64} << 20;

constexpr size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

std::shared_ptr<std::byte> allocate(size_t bytes) {
  auto* memory = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kLine}));
  return {memory, [](std::byte* p) { ::operator delete (p, std::align_val_t{kLine}); }};
}

// Mapped rather than allocated: freeing so large a block would make malloc keep large free memory ever after.
std::shared_ptr<std::byte> allocate_large_pages(size_t bytes) {
  bytes = round_up(bytes, kLargePage) + kLargePage;  // to start at one
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  ::madvise(mapped, bytes, MADV_HUGEPAGE);  // a refusal costs speed alone
#endif
  const std::shared_ptr<void> owner(mapped, [bytes](void* p) { ::munmap(p, bytes); });
  return {owner, reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uintptr_t>(mapped), kLargePage))};
}

}  // namespace

std::shared_ptr<const BlockMemory> BlockMemory::of(WeightStore& store, const std::string& purpose) {
  return store.get<BlockMemory>("memory for " + purpose, [] { return std::make_shared<const BlockMemory>(); });
}

std::shared_ptr<std::byte> BlockMemory::take(size_t bytes) const {
  bytes = round_up(bytes, kLine);
  const std::lock_guard<std::mutex> lock(mutex_);
  total_ += bytes;
  std::shared_ptr<std::byte> block = block_.lock();
  // A small model would waste most of a large page.
  if (!block && total_ <= kLargePage) return allocate(bytes);
  if (bytes > kBlock / 4) return allocate_large_pages(bytes);
  if (!block || used_ + bytes > kBlock) {
    block_ = block = allocate_large_pages(kBlock);
    used_ = 0;
  }
  std::shared_ptr<std::byte> taken(block, block.get() + used_);
  used_ += bytes;
  return taken;
}

}  // namespace transmuter::cpu
