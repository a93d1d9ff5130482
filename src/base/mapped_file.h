// A file's bytes, mapped read-only or read into memory. A mapped file must not be truncated while it is open (the
// operating system would stop the process): where that can happen, read instead.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace transmuter {

class MappedFile {
 public:
  // Throws Error not_found (no such file), invalid_input (a folder, a device), io (the operating system refused). An
  // empty file gives an empty view. `follow_links` = false refuses a path whose last part is a symbolic link.
  static std::shared_ptr<const MappedFile> open(const std::string& path, bool map = true, bool follow_links = true);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::byte* bytes() const { return bytes_; }
  size_t size() const { return size_; }
  std::string_view view() const { return {reinterpret_cast<const char*>(bytes_), size_}; }
  int64_t hard_links() const { return hard_links_; }

 private:
  MappedFile() = default;

  const std::byte* bytes_ = nullptr;
  size_t size_ = 0;
  int64_t hard_links_ = 1;
  bool mapped_ = false;
  std::unique_ptr<std::byte[]> memory_;
};

// Whether the bytes belong to a mapped file.
bool is_mapped(const std::byte* bytes);

// Bytes that were copied out and will hardly be read again: their pages of a mapped file leave memory, and those around
// them that came in with them (reading brings them back). Bytes that belong to no mapped file are left alone.
void release_pages(const std::byte* bytes, size_t size);

// Writes all bytes to an open file; `path` names it in errors. Throws Error io.
void write_all(int file, std::string_view bytes, const std::string& path);

// Writes a whole file, replacing what was there. Throws Error io.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace transmuter
