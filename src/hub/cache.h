// The cache folder of the Hugging Face client: CACHE/models--ORG--NAME/{blobs/ETAG, snapshots/COMMIT/FILE -> blob,
// refs/REVISION, .no_exist/COMMIT/FILE}, CACHE/.locks/models--ORG--NAME/ETAG.lock.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace transmuter::hub {

// Yes for 1, ON, YES, TRUE.
bool environment_says(const char* name);
std::string cache_folder();  // as the environment says
std::string endpoint();
std::string stored_token();  // "" = none

// Names that would lead out of the cache are refused: Error(invalid_input).
void check_repository(const std::string& repo);
void check_revision(const std::string& revision);
void check_file(const std::string& file);
bool is_commit(const std::string& revision);  // 40 hexadecimal digits
// A name that the server chose, as a file's name.
bool is_plain_name(const std::string& name);

class RepositoryCache {
 public:
  RepositoryCache(std::string cache, const std::string& repo);

  std::string snapshot(const std::string& commit) const;
  std::string pointer(const std::string& commit, const std::string& file) const;
  std::string blob(const std::string& etag) const;
  // The commit that a revision stood for when it was asked last; a commit stands for itself.
  std::optional<std::string> commit_of(const std::string& revision) const;
  void set_commit(const std::string& revision, const std::string& commit) const;
  // For the Python client, which does not ask again for a file that is noted as missing.
  void set_missing(const std::string& commit, const std::string& file) const;
  std::vector<std::string> files(const std::string& commit) const;

  void prepare() const;  // makes the folders
  // The snapshot's link to a blob that is there; a copy where links can't be made.
  void link(const std::string& commit, const std::string& file, const std::string& etag) const;

  // Held while a blob is downloaded; waits for other processes.
  class Lock {
   public:
    Lock(const RepositoryCache& cache, const std::string& etag);
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock();

   private:
    int file_ = -1;
  };

 private:
  std::string cache_;
  std::string name_;    // "models--org--name"
  std::string folder_;  // cache_/name_
};

}  // namespace transmuter::hub
