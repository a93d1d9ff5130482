#include "base/memory.h"

#include <cstdio>
#include <memory>

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

}  // namespace transmuter
