#include "backends/pjrt/disk_cache.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/environment.h"
#include "base/strings.h"

namespace transmuter::pjrt {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kMagic = "TMPJRT01";
constexpr const char *kEnding = ".pjrt", *kPart = ".part";
constexpr std::chrono::minutes kLongestWrite(10);

uint64_t hash_of(std::string_view text, uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash ^ (hash >> 29);
}

struct FileHeader {
  char magic[8];
  uint64_t key_bytes, bytes, check;  // check: hash of the bytes
};

constexpr uint64_t kSeed = 0xcbf29ce484222325u;

std::string hex(uint64_t value) {
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[value >> shift & 15];
  return text;
}

}  // namespace

DiskCache::DiskCache(std::string folder, uint64_t limit)
    : folder_(folder == "off" ? std::string() : std::move(folder)), limit_(limit) {}

std::string DiskCache::default_folder() {
  if (std::string named = environment("TRANSMUTER_PJRT_CACHE"); !named.empty()) return named;
  if (const std::string caches = environment("XDG_CACHE_HOME"); !caches.empty()) return caches + "/transmuter/pjrt";
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.cache/transmuter/pjrt";
}

std::string DiskCache::file_of(const std::string& key) const {
  return str(folder_, "/", hex(hash_of(key, kSeed)), hex(hash_of(key, ~kSeed)), kEnding);
}

std::optional<std::string> DiskCache::find(const std::string& key) const {
  if (!enabled()) return std::nullopt;
  const std::string path = file_of(key);
  std::ifstream file(path, std::ios::binary);
  FileHeader header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return std::nullopt;
  std::error_code ignored;
  const uint64_t size = fs::file_size(path, ignored);
  if (std::string_view(header.magic, sizeof header.magic) != kMagic || header.key_bytes != key.size() ||
      header.bytes > size || header.bytes + header.key_bytes + sizeof header != size)
    return std::nullopt;
  std::string stored_key(header.key_bytes, '\0'), bytes(header.bytes, '\0');
  if (!file.read(stored_key.data(), static_cast<std::streamsize>(stored_key.size())) || stored_key != key)
    return std::nullopt;
  if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())) || hash_of(bytes, kSeed) != header.check)
    return std::nullopt;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);  // used just now
  return bytes;
}

void DiskCache::store(const std::string& key, const std::string& bytes) const {
  if (!enabled() || bytes.empty()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  static std::atomic<uint64_t> count{0};  // threads of a process may store the same program
  const std::string path = file_of(key), part = str(path, ".", getpid(), ".", count.fetch_add(1), kPart);
  {
    std::ofstream file(part, std::ios::binary);
    FileHeader header{{}, key.size(), bytes.size(), hash_of(bytes, kSeed)};
    std::memcpy(header.magic, kMagic.data(), sizeof header.magic);
    file.write(reinterpret_cast<const char*>(&header), sizeof header);
    file << key << bytes;
    file.close();
    if (!file) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) fs::rename(part, path, error);
  if (error) fs::remove(part, error);
  make_room();
}

void DiskCache::make_room() const {
  struct File {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<File> files;
  uint64_t all = 0;
  std::error_code ignored, end;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator at(folder_, end); !end && at != fs::directory_iterator(); at.increment(end)) {
    const fs::path& path = at->path();
    if (path.extension() == kPart) {
      // A process that went while it wrote left it.
      const auto written = fs::last_write_time(path, ignored);
      if (!ignored && now - written > kLongestWrite) fs::remove(path, ignored);
    }
    if (path.extension() != kEnding) continue;
    const uint64_t bytes = fs::file_size(path, ignored);
    if (ignored) continue;  // another process has removed it
    files.push_back({fs::last_write_time(path, ignored), bytes, path});
    all += bytes;
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.used < b.used; });
  for (size_t i = 0; i < files.size() && all > limit_; ++i) {
    fs::remove(files[i].path, ignored);
    all -= files[i].bytes;
  }
}

}  // namespace transmuter::pjrt
