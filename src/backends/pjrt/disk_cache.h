// Compiled programs on disk, so that the second start of a process doesn't compile. A file holds the whole key (the
// program's text and what it was compiled by and for), so nothing is ever taken for something else; one that is damaged
// counts as not there. Processes may share a folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace transmuter::pjrt {

class DiskCache {
 public:
  // "" or "off": none. Files used longest ago go when all of them are larger than `limit` bytes.
  explicit DiskCache(std::string folder, uint64_t limit = uint64_t{1} << 30);
  // $TRANSMUTER_PJRT_CACHE (a folder, or "off"), else transmuter/pjrt in the user's folder for caches.
  static std::string default_folder();

  bool enabled() const { return !folder_.empty(); }
  std::optional<std::string> find(const std::string& key) const;
  // Silently gives up where it cannot write: it's only a cache.
  void store(const std::string& key, const std::string& bytes) const;

 private:
  std::string file_of(const std::string& key) const;
  void make_room() const;

  std::string folder_;
  uint64_t limit_;
};

}  // namespace transmuter::pjrt
