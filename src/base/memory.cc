#include "base/memory.h"

#include <cstdio>
#include <memory>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter {

bool memory_is_there(size_t bytes) {
#ifdef __linux__
  constexpr size_t kSmall = size_t{256} << 20;  // not worth asking
  if (bytes < kSmall) return true;
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/meminfo", "r"), std::fclose);
  if (!file) return true;
  char line[256];
  unsigned long long kilobytes = 0;
  while (std::fgets(line, sizeof line, file.get()))
    if (std::sscanf(line, "MemAvailable: %llu", &kilobytes) == 1) return bytes / 1024 <= kilobytes / 2;
#else
  (void)bytes;
#endif
  return true;
}

void give_back_free_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

void LoopGrowth::check(size_t state_bytes, int64_t trip) const {
  if (memory_is_there(8 * state_bytes + rows_)) return;
  throw Error(ErrorCode::out_of_memory, str("Loop: after trip ", trip, " the carried values take ", state_bytes >> 20,
                                            " MB and the rows of its outputs ", rows_ >> 20,
                                            " MB, more than the free memory allows to go on with"));
}

}  // namespace transmuter
