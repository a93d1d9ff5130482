#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

// The mapped files, by address, for release_pages.
struct Mappings {
  std::mutex mutex;
  std::map<const std::byte*, size_t> sizes;
};
Mappings& mappings() {
  static auto* const kMappings = new Mappings;  // never destroyed: files may be closed while the program ends
  return *kMappings;
}

// Begin and end of the mapped file that holds `bytes`; null: there is none. Under the mutex.
std::pair<const std::byte*, const std::byte*> mapping_of(const std::byte* bytes) {
  auto at = mappings().sizes.upper_bound(bytes);
  if (at == mappings().sizes.begin()) return {};
  --at;
  const std::byte* const end = at->first + at->second;
  if (bytes >= end) return {};
  return {at->first, end};
}

[[noreturn]] void refuse(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR) throw Error(ErrorCode::not_found, str("there is no file ", path));
  if (error == ELOOP) throw Error(ErrorCode::invalid_input, str(path, " is a symbolic link"));
  throw Error(ErrorCode::io, str("cannot open ", path, ": ", std::strerror(error)));
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path, bool map, bool follow_links) {
  if (path.find('\0') != std::string::npos) throw Error(ErrorCode::invalid_input, "the file name holds a NUL byte");
  // O_NONBLOCK: a named pipe would otherwise wait for a writer before it can be refused.
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | (follow_links ? 0 : O_NOFOLLOW))};
  if (file.fd < 0) refuse(path, errno);
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) refuse(path, errno);
  if (S_ISDIR(status.st_mode)) throw Error(ErrorCode::invalid_input, str(path, " is a folder, not a file"));
  if (!S_ISREG(status.st_mode)) throw Error(ErrorCode::invalid_input, str(path, " is not a regular file"));

  std::shared_ptr<MappedFile> result(new MappedFile);
  result->size_ = static_cast<size_t>(status.st_size);
  result->hard_links_ = static_cast<int64_t>(status.st_nlink);
  if (result->size_ == 0) return result;
  if (map) {
    void* address = ::mmap(nullptr, result->size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (address == MAP_FAILED) throw Error(ErrorCode::io, str("cannot map ", path, ": ", std::strerror(errno)));
    result->bytes_ = static_cast<const std::byte*>(address);
    result->mapped_ = true;
#ifdef MADV_NOHUGEPAGE
    // What is read here and there (headers, rows of a table) would bring in two megabytes at each place.
    ::madvise(address, result->size_, MADV_NOHUGEPAGE);
#endif
    const std::lock_guard<std::mutex> lock(mappings().mutex);
    mappings().sizes[result->bytes_] = result->size_;
    return result;
  }
  result->memory_.reset(new (std::nothrow) std::byte[result->size_]);
  if (!result->memory_) throw Error(ErrorCode::out_of_memory, str("there is not enough memory to read ", path));
  size_t done = 0;
  while (done < result->size_) {
    // One read moves at most 2 GB on Linux.
    const ssize_t got =
        ::read(file.fd, result->memory_.get() + done, std::min<size_t>(result->size_ - done, size_t{1} << 30));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(ErrorCode::io, str("cannot read ", path, ": ", std::strerror(errno)));
    if (got == 0) throw Error(ErrorCode::io, str(path, " became shorter while it was read"));
    done += static_cast<size_t>(got);
  }
  result->bytes_ = result->memory_.get();
  return result;
}

MappedFile::~MappedFile() {
  if (!mapped_) return;
  {
    const std::lock_guard<std::mutex> lock(mappings().mutex);
    mappings().sizes.erase(bytes_);
  }
  ::munmap(const_cast<std::byte*>(bytes_), size_);
}

bool is_mapped(const std::byte* bytes) {
  const std::lock_guard<std::mutex> lock(mappings().mutex);
  return mapping_of(bytes).first != nullptr;
}

void release_pages(const std::byte* bytes, size_t size) {
  // What a read brings in besides the page that it needs, where the system has it at hand (Linux: fault_around_bytes).
  constexpr size_t kWindow = size_t{64} << 10;
  if (size == 0) return;
  const std::lock_guard<std::mutex> lock(mappings().mutex);
  const auto [first, last] = mapping_of(bytes);
  if (!first || bytes + size > last) return;
  const auto window = [](const std::byte* p) { return reinterpret_cast<uintptr_t>(p) / kWindow * kWindow; };
  const uintptr_t begin = std::max(window(bytes), reinterpret_cast<uintptr_t>(first));
  const uintptr_t end = std::min(window(bytes + size - 1) + kWindow, reinterpret_cast<uintptr_t>(last));
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void write_all(int file, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(file, bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw Error(ErrorCode::io, str("cannot write ", path, ": ", std::strerror(errno)));
    bytes.remove_prefix(static_cast<size_t>(put));
  }
}

void write_file(const std::string& path, std::string_view bytes) {
  const Descriptor file{::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
  if (file.fd < 0) throw Error(ErrorCode::io, str("cannot write ", path, ": ", std::strerror(errno)));
  write_all(file.fd, bytes, path);
}

}  // namespace transmuter
