#include "backends/cpu/kernels/scratch.h"

#include <new>

namespace transmuter::cpu {
namespace {

struct Block {
  void* data = nullptr;
  size_t bytes = 0;
  ~Block() { ::operator delete (data, std::align_val_t{64}); }
};

}  // namespace

void* thread_scratch(ScratchSlot slot, size_t bytes) {
  thread_local Block blocks[2];
  Block& block = blocks[static_cast<size_t>(slot)];
  if (block.bytes < bytes) {
    ::operator delete (block.data, std::align_val_t{64});
    block.data = nullptr;
    block.bytes = 0;
    block.data = ::operator new (bytes, std::align_val_t{64});
    block.bytes = bytes;
  }
  return block.data;
}

}  // namespace transmuter::cpu
