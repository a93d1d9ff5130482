#include "hub/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/environment.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter::hub {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& sentence) { throw Error(ErrorCode::invalid_input, sentence); }

// "~" and $NAME, ${NAME} as the shell has them; unknown names stay.
std::string expanded(std::string text) {
  if (text == "~" || text.starts_with("~/")) text.replace(0, 1, environment("HOME"));
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      out += text[i];
      continue;
    }
    const bool braces = i + 1 < text.size() && text[i + 1] == '{';
    const size_t begin = i + (braces ? 2 : 1);
    size_t end = begin;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) ++end;
    const std::string name = text.substr(begin, end - begin);
    const bool closed = !braces || (end < text.size() && text[end] == '}');
    if (name.empty() || !closed || !std::getenv(name.c_str())) {
      out += text[i];
      continue;
    }
    out += environment(name.c_str());
    i = end - (braces ? 0 : 1);
  }
  return out;
}

std::string home() {
  if (const std::string set = environment("HF_HOME"); !set.empty()) return expanded(set);
  const std::string base = environment("XDG_CACHE_HOME");
  return expanded((base.empty() ? "~/.cache" : base) + "/huggingface");
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto blank = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  while (!text.empty() && blank(text.back())) text.pop_back();
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), blank));
  return text;
}

template <class Body>
auto on_disk(const std::string& what, Body body) {
  try {
    return body();
  } catch (const fs::filesystem_error& error) {
    throw Error(ErrorCode::io, str("cannot ", what, ": ", error.code().message(), " (", error.path1().string(), ")"));
  }
}

// A name beside `path` that no other process uses.
std::string temporary(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  return str(path, ".", ::getpid(), "-", counter++, ".tmp");
}

// The file appears whole or not at all, whoever else writes it.
void replace_file(const std::string& path, std::string_view text) {
  const std::string written = temporary(path);
  write_file(written, text);
  fs::rename(written, path);
}

bool safe_parts(const std::string& path) {
  if (path.empty() || path.front() == '/' || path.find('\\') != std::string::npos ||
      path.find("//") != std::string::npos || path.find('\0') != std::string::npos)
    return false;
  for (const fs::path& part : fs::path(path))
    if (part == ".." || part == "." || part.empty()) return false;
  return true;
}

}  // namespace

bool environment_says(const char* name) {
  std::string value = environment(name);
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::toupper(c); });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

std::string cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const std::string set = environment(name); !set.empty()) return expanded(set);
  return home() + "/hub";
}

std::string endpoint() {
  std::string url = environment("HF_ENDPOINT");
  if (url.empty()) url = "https://huggingface.co";
  while (url.ends_with('/')) url.pop_back();
  return url;
}

std::string stored_token() {
  if (environment_says("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return "";
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})
    if (const std::string set = environment(name); !set.empty()) return set;
  const std::string path = environment("HF_TOKEN_PATH");
  return read_text(path.empty() ? home() + "/token" : expanded(path));
}

void check_repository(const std::string& repo) {
  const auto plain = [](std::string_view part) {
    return !part.empty() && part.size() <= 96 && part.front() != '-' && part.front() != '.' && part.back() != '-' &&
           part.back() != '.' && std::all_of(part.begin(), part.end(), [](unsigned char c) {
             return std::isalnum(c) || c == '-' || c == '_' || c == '.';
           });
  };
  const size_t slash = repo.find('/');
  const bool good =
      slash == std::string::npos ? plain(repo) : plain(repo.substr(0, slash)) && plain(repo.substr(slash + 1));
  if (!good || repo.find("--") != std::string::npos || repo.find("..") != std::string::npos || repo.ends_with(".git"))
    refuse(str("\"", repo, "\" is not the name of a repository: ORG/NAME, of letters, digits, -, _ and ."));
}

void check_revision(const std::string& revision) {
  if (!safe_parts(revision)) refuse(str("\"", revision, "\" is not a branch, tag or commit"));
}

void check_file(const std::string& file) {
  if (!safe_parts(file)) refuse(str("\"", file, "\" is not a file of a repository"));
}

bool is_commit(const std::string& revision) {
  return revision.size() == 40 && std::all_of(revision.begin(), revision.end(), [](unsigned char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name.size() <= 128 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; });
}

RepositoryCache::RepositoryCache(std::string cache, const std::string& repo) : cache_(std::move(cache)) {
  name_ = "models--" + repo;
  if (const size_t slash = name_.find('/'); slash != std::string::npos) name_.replace(slash, 1, "--");
  folder_ = cache_ + "/" + name_;
}

std::string RepositoryCache::snapshot(const std::string& commit) const { return folder_ + "/snapshots/" + commit; }
std::string RepositoryCache::pointer(const std::string& commit, const std::string& file) const {
  return snapshot(commit) + "/" + file;
}
std::string RepositoryCache::blob(const std::string& etag) const { return folder_ + "/blobs/" + etag; }

std::optional<std::string> RepositoryCache::commit_of(const std::string& revision) const {
  if (is_commit(revision)) return revision;
  const std::string commit = read_text(folder_ + "/refs/" + revision);
  if (!is_plain_name(commit)) return std::nullopt;
  return commit;
}

void RepositoryCache::set_commit(const std::string& revision, const std::string& commit) const {
  if (revision == commit) return;
  const std::string path = folder_ + "/refs/" + revision;
  if (read_text(path) == commit) return;
  on_disk("write the hub's cache", [&] {
    fs::create_directories(fs::path(path).parent_path());
    replace_file(path, commit);
  });
}

void RepositoryCache::set_missing(const std::string& commit, const std::string& file) const {
  // A convenience: a cache that cannot be written is no error here.
  std::error_code error;
  const fs::path path = folder_ + "/.no_exist/" + commit + "/" + file;
  fs::create_directories(path.parent_path(), error);
  if (!error) std::ofstream(path, std::ios::app);
}

std::vector<std::string> RepositoryCache::files(const std::string& commit) const {
  std::vector<std::string> names;
  std::error_code error;
  const fs::path folder = snapshot(commit);
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->is_regular_file(error)) names.push_back(at->path().lexically_relative(folder).generic_string());
  std::sort(names.begin(), names.end());
  return names;
}

void RepositoryCache::prepare() const {
  on_disk("write the hub's cache", [&] {
    fs::create_directories(folder_ + "/blobs");
    fs::create_directories(folder_ + "/snapshots");
    fs::create_directories(cache_ + "/.locks/" + name_);
    // Backup programs leave folders with this file out.
    const std::string tag = cache_ + "/CACHEDIR.TAG";
    if (!fs::exists(tag))
      replace_file(
          tag, "Signature: 8a477f597d28d172789f06886806bc55\n# This folder holds downloads of the Hugging Face hub.\n");
  });
}

void RepositoryCache::link(const std::string& commit, const std::string& file, const std::string& etag) const {
  on_disk("write the hub's cache", [&] {
    const fs::path path = pointer(commit, file);
    fs::create_directories(path.parent_path());
    const std::string made = temporary(path.string());
    std::error_code error(1, std::generic_category());
    if (!environment_says("HF_HUB_DISABLE_SYMLINKS"))
      fs::create_symlink(fs::path(blob(etag)).lexically_relative(path.parent_path()), made, error);
    if (error) fs::copy_file(blob(etag), made);  // a file system without links
    fs::rename(made, path);
  });
}

RepositoryCache::Lock::Lock(const RepositoryCache& cache, const std::string& etag) {
  const std::string path = cache.cache_ + "/.locks/" + cache.name_ + "/" + etag + ".lock";
  for (;;) {
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file_ < 0) throw Error(ErrorCode::io, str("cannot lock ", path, ": ", std::strerror(errno)));
    int locked = 0;
    do locked = ::flock(file_, LOCK_EX);
    while (locked != 0 && errno == EINTR);
    if (locked != 0) return;  // a file system without locks: the checksum still stands between us and a torn file
    // Whoever held it may have removed it: then others lock another file by now.
    struct stat held {
    }, named{};
    if (::fstat(file_, &held) == 0 && ::stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino) return;
    ::close(file_);
  }
}

RepositoryCache::Lock::~Lock() { ::close(file_); }

}  // namespace transmuter::hub
