#include "transmuter/hub.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/environment.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "hub/cache.h"
#include "hub/digest.h"
#include "hub/http.h"
#include "onnx/document.h"
#include "onnx/writer.h"
#include "transmuter/graph.h"

namespace transmuter {
namespace hub {
namespace {

namespace fs = std::filesystem;

std::optional<int64_t> number(const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  if (text.empty() || std::from_chars(text.data(), end, value).ptr != end || value < 0) return std::nullopt;
  return value;
}

bool worth_retrying(const Response& response) {
  return response.status == 0 || response.status == 408 || response.status == 429 || response.status >= 500 ||
         (!response.failure.empty() && !response.cancelled);
}

// W/"..." and "..." without what is around.
std::string plain_etag(std::string etag) {
  if (etag.starts_with("W/")) etag.erase(0, 2);
  std::erase(etag, '"');
  return etag;
}

class File {
 public:
  explicit File(const std::string& path) : path_(path) {
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file_ < 0) fail();
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (file_ >= 0) ::close(file_);
  }
  int64_t size() const { return static_cast<int64_t>(::lseek(file_, 0, SEEK_END)); }
  void truncate() {
    if (::ftruncate(file_, 0) != 0) fail();
    ::lseek(file_, 0, SEEK_SET);
  }
  void append(std::string_view bytes) { write_all(file_, bytes, path_); }
  void finish() {
    if (::fsync(file_) != 0 && errno != EINVAL && errno != ENOTSUP) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(ErrorCode::io, str("cannot write ", path_, ": ", std::strerror(errno)));
  }
  std::string path_;
  int file_ = -1;
};

struct Metadata {
  std::string etag;
  std::string commit;
  std::string url;  // where the bytes are
  std::optional<int64_t> size;
};

class Session {
 public:
  Session(const std::string& repo, const HubOptions& options)
      : repo_(repo), options_(options), cache_(options.cache.empty() ? cache_folder() : options.cache, repo) {
    check_repository(repo);
    check_revision(options.revision);
    endpoint_ = options.endpoint.empty() ? endpoint() : options.endpoint;
    while (endpoint_.ends_with('/')) endpoint_.pop_back();
    token_ = options.token.empty() ? stored_token() : options.token;
    if (token_.find_first_of("\r\n") != std::string::npos)
      throw Error(ErrorCode::invalid_input, "the token of the hub holds a line break");
    offline_ = !hub_available() || options.offline || environment_says("HF_HUB_OFFLINE") ||
               environment_says("TRANSFORMERS_OFFLINE");
  }

  std::string get(const std::string& file) {
    check_file(file);
    if (!options_.force && (is_commit(options_.revision) || offline_)) {
      if (const std::optional<std::string> cached = find(file)) return *cached;
    }
    if (offline_) throw not_cached(file);
    Response response;
    const std::optional<Metadata> metadata = ask(file, response);
    if (!metadata) {
      // The hub cannot be reached, or does not let us: what was downloaded before will do.
      if (!options_.force)
        if (const std::optional<std::string> cached = find(file)) return *cached;
      throw refusal(response, file);
    }
    const std::string pointer = cache_.pointer(metadata->commit, file);
    if (!options_.force && fs::exists(pointer)) {
      try {
        cache_.set_commit(options_.revision, metadata->commit);
      } catch (const Error&) {  // a cache that is mounted read-only
      }
      return pointer;
    }
    cache_.prepare();
    {
      const RepositoryCache::Lock lock(cache_, metadata->etag);
      if (options_.force || !fs::exists(cache_.blob(metadata->etag))) fetch(file, *metadata);
    }
    if (options_.force || !fs::exists(pointer)) cache_.link(metadata->commit, file, metadata->etag);
    cache_.set_commit(options_.revision, metadata->commit);
    return pointer;
  }

  std::vector<std::string> list() {
    const std::vector<std::string> cached = cached_files();
    if (offline_) {
      if (cached.empty()) throw not_cached("");
      return cached;
    }
    Request request;
    request.url = str(endpoint_, "/api/models/", repo_, "/revision/", quoted(options_.revision, false));
    request.token = token_;
    request.timeout_s = seconds("HF_HUB_ETAG_TIMEOUT");
    // One quick try where the cache can answer instead.
    const Response response = cached.empty() ? with_retries([&] { return perform(request); }) : perform(request);
    if (response.status != 200) {
      if (worth_retrying(response) && !cached.empty()) return cached;
      throw refusal(response, "");
    }
    std::vector<std::string> names;
    const auto answer = nlohmann::json::parse(response.body, nullptr, false);
    if (!answer.is_object() || !answer.contains("siblings") || !answer["siblings"].is_array())
      throw Error(ErrorCode::io, str(request.url, " did not answer as a hub does (HF_ENDPOINT is ", endpoint_, ")"));
    for (const auto& sibling : answer["siblings"])
      if (sibling.is_object() && sibling.contains("rfilename") && sibling["rfilename"].is_string())
        names.push_back(sibling["rfilename"].get<std::string>());
    // All files of one call come from one commit, whatever is pushed meanwhile.
    if (answer.contains("sha") && answer["sha"].is_string() && is_commit(answer["sha"].get<std::string>()))
      pinned_ = answer["sha"].get<std::string>();
    return names;
  }

  // After list(): the revision stands for the commit that was listed.
  void pin() {
    if (pinned_.empty()) return;
    if (options_.revision != pinned_) {
      cache_.prepare();
      cache_.set_commit(options_.revision, pinned_);
    }
    options_.revision = pinned_;
  }
  std::string folder() const {
    const std::optional<std::string> commit = cache_.commit_of(options_.revision);
    return commit ? cache_.snapshot(*commit) : "";
  }

 private:
  std::optional<std::string> find(const std::string& file) const {
    const std::optional<std::string> commit = cache_.commit_of(options_.revision);
    if (!commit) return std::nullopt;
    std::string path = cache_.pointer(*commit, file);
    std::error_code error;
    if (!fs::is_regular_file(path, error)) return std::nullopt;  // a link whose blob is gone is no file
    return path;
  }

  std::vector<std::string> cached_files() const {
    const std::optional<std::string> commit = cache_.commit_of(options_.revision);
    return commit ? cache_.files(*commit) : std::vector<std::string>();
  }

  Error not_cached(const std::string& file) const {
    const char* why = hub_available() ? "requests are forbidden (HF_HUB_OFFLINE, or offline in the options)"
                                      : "this build cannot download (TRANSMUTER_HUB=OFF)";
    const std::string what = file.empty() ? "nothing" : str("no \"", file, '"');
    return Error(ErrorCode::not_found,
                 str(what, " of ", repo_, " (", options_.revision, ") is in the hub's cache, and ", why));
  }

  static int64_t seconds(const char* name) { return std::max<int64_t>(number(environment(name)).value_or(10), 1); }

  void wait(int attempt, const Response& response) const {
    double delay = std::min(options_.first_delay_s * static_cast<double>(1 << std::min(attempt, 6)), 8.0);
    if (const auto asked = number(response.header("retry-after"))) delay = std::min<double>(*asked, 60);
    std::this_thread::sleep_for(std::chrono::duration<double>(delay));
  }

  template <class Body>
  Response with_retries(Body body) const {
    for (int attempt = 0;; ++attempt) {
      Response response = body();
      if (!worth_retrying(response) || attempt + 1 >= options_.retries) return response;
      wait(attempt, response);
    }
  }

  std::string url_of(const std::string& file) const {
    return str(endpoint_, "/", repo_, "/resolve/", quoted(options_.revision, false), "/", quoted(file, true));
  }

  // What the hub says of a file; nothing if it doesn't, and `response` says why.
  std::optional<Metadata> ask(const std::string& file, Response& response) {
    Request request;
    request.url = url_of(file);
    request.token = token_;
    request.head = true;
    request.timeout_s = seconds("HF_HUB_ETAG_TIMEOUT");
    // One quick try where the cache can answer instead.
    response = !options_.force && find(file) ? perform(request) : with_retries([&] { return perform(request); });
    const std::string commit = response.header("x-repo-commit");
    if (response.status == 404 && is_plain_name(commit) && response.header("x-error-code") == "EntryNotFound") {
      cache_.set_missing(commit, file);
      throw refusal(response, file);
    }
    if (response.status < 200 || response.status >= 400 || !response.failure.empty()) {
      if (response.status == 404) throw refusal(response, file);
      return std::nullopt;
    }
    Metadata metadata;
    metadata.commit = commit;
    const std::string linked = response.header("x-linked-etag");
    metadata.etag = plain_etag(linked.empty() ? response.header("etag") : linked);
    const bool redirected = response.status >= 300;
    metadata.url = redirected ? response.header("location") : response.url;
    metadata.size = number(response.header("x-linked-size"));
    if (!metadata.size && !redirected) metadata.size = number(response.header("content-length"));
    if (!is_plain_name(metadata.commit) || !is_plain_name(metadata.etag)) {
      response.failure = str(request.url, " did not answer as a hub does: no commit or etag (HF_ENDPOINT is ",
                             endpoint_, "; look at proxies and firewalls too)");
      return std::nullopt;
    }
    return metadata;
  }

  bool report(const std::string& file, int64_t done, const std::optional<int64_t>& total) const {
    return !options_.progress || options_.progress({file, done, total.value_or(-1)});
  }

  // The blob, under its name only when it is whole.
  void fetch(const std::string& file, const Metadata& metadata) {
    const std::string blob = cache_.blob(metadata.etag);
    const std::string partial = blob + ".incomplete";
    for (int round = 0;; ++round) {
      download(file, metadata, partial);
      if (checks(metadata, partial)) break;
      std::error_code ignored;
      fs::remove(partial, ignored);
      if (round == 1)
        throw Error(ErrorCode::io, str("\"", file, "\" of ", repo_,
                                       " arrived twice with other contents than the hub says "
                                       "(its hash is not ",
                                       metadata.etag, ")"));
    }
    std::error_code error;
    fs::rename(partial, blob, error);
    if (error) throw Error(ErrorCode::io, str("cannot write ", blob, ": ", error.message()));
  }

  void download(const std::string& file, const Metadata& metadata, const std::string& partial) {
    File out(partial);
    check_space(metadata, partial, out.size());
    Request request;
    request.url = metadata.url;
    request.token = origin(metadata.url) == origin(endpoint_) ? token_ : "";
    request.follow = true;
    request.timeout_s = seconds("HF_HUB_DOWNLOAD_TIMEOUT");
    std::optional<Error> trouble;
    for (int idle = 0;;) {
      int64_t done = out.size();
      if (metadata.size && done > *metadata.size) {
        out.truncate();
        done = 0;
      }
      if (metadata.size && done == *metadata.size) break;
      request.from = done;
      const int64_t before = done;
      Response response = perform(request, [&](const Response& answer, std::string_view bytes) {
        try {
          if (done > 0 && done == before && !continues(answer, before)) {
            out.truncate();  // the whole file comes again
            done = 0;
          }
          out.append(bytes);
          done += static_cast<int64_t>(bytes.size());
          return report(file, done, metadata.size);
        } catch (const Error& error) {
          trouble = error;
          return false;
        }
      });
      if (trouble) throw *trouble;
      if (response.cancelled) throw Error(ErrorCode::io, str("the download of \"", file, "\" was stopped"));
      const bool fine = (response.status == 200 || response.status == 206) && response.failure.empty();
      if (fine && (!metadata.size || done == *metadata.size)) break;
      if (response.status == 416) out.truncate();  // what is there isn't of this file
      // Signed addresses of other hosts expire.
      const bool expired = response.status == 403 && origin(request.url) != origin(endpoint_);
      if (!fine && !worth_retrying(response) && response.status != 416 && !expired) throw refusal(response, file);
      idle = done > before ? 0 : idle + 1;
      if (idle >= options_.retries) throw refusal(response, file);
      wait(idle, response);
      if (expired || idle > 1) renew(file, metadata, request);
    }
    out.finish();
    report(file, out.size(), out.size());
  }

  // A 206 that starts where we stopped.
  static bool continues(const Response& answer, int64_t from) {
    if (answer.status != 206) return false;
    const std::string range = answer.header("content-range");
    return range.empty() || range.starts_with(str("bytes ", from, "-"));
  }

  void renew(const std::string& file, const Metadata& metadata, Request& request) {
    Response response;
    const std::optional<Metadata> again = ask(file, response);
    if (!again || again->etag != metadata.etag) return;
    request.url = again->url;
    request.token = origin(again->url) == origin(endpoint_) ? token_ : "";
  }

  static void check_space(const Metadata& metadata, const std::string& path, int64_t done) {
    struct statvfs disk {};
    if (!metadata.size || ::statvfs(fs::path(path).parent_path().c_str(), &disk) != 0) return;
    const auto free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
    if (free < static_cast<double>(*metadata.size - done))
      throw Error(ErrorCode::io,
                  str("the disk of ", fs::path(path).parent_path().string(), " has ", static_cast<int64_t>(free / 1e6),
                      " MB left; the file needs ", (*metadata.size - done) / 1000000, " MB more"));
  }

  // Etags are the SHA-256 of large files and git's hash of small ones; other hubs' etags say nothing.
  static bool checks(const Metadata& metadata, const std::string& path) {
    const bool hexadecimal = metadata.etag.find_first_not_of("0123456789abcdef") == std::string::npos;
    const bool large = metadata.etag.size() == 64, small = metadata.etag.size() == 40;
    const auto file = MappedFile::open(path, true);
    if (metadata.size && static_cast<int64_t>(file->size()) != *metadata.size) return false;
    if (!hexadecimal || (!large && !small)) return true;
    Digest digest(large ? Digest::Kind::sha256 : Digest::Kind::sha1);
    if (small) {
      const std::string header = str("blob ", file->size());
      digest.add(std::string_view(header.c_str(), header.size() + 1));
    }
    digest.add(file->view());
    return digest.hex() == metadata.etag;
  }

  // What went wrong, in the words of someone who has to do something about it.
  Error refusal(const Response& response, const std::string& file) const {
    const std::string code = response.header("x-error-code");
    const std::string page = str(endpoint_, "/", repo_);
    const std::string what = file.empty() ? repo_ : str("\"", file, "\" of ", repo_);
    if (code == "GatedRepo")
      return Error(ErrorCode::invalid_input, str("the repository ", repo_, " is gated: ask for access at ", page,
                                                 token_.empty() ? ", then give a token of your account in HF_TOKEN"
                                                                : "; the account of the token in use has none yet"));
    if (code == "RepoNotFound" || response.status == 401)
      return Error(ErrorCode::not_found, str("there is no repository ", repo_, " at ", endpoint_,
                                             token_.empty() ? ", or it is private: then give a token in HF_TOKEN"
                                                            : ", or the token in use may not see it"));
    if (code == "RevisionNotFound")
      return Error(ErrorCode::not_found, str("the repository ", repo_, " has no revision \"", options_.revision, "\""));
    if (code == "EntryNotFound" || response.status == 404)
      return Error(ErrorCode::not_found, str("the repository ", repo_, " has no file \"", file, "\" in revision \"",
                                             options_.revision, "\""));
    if (response.status == 403)
      return Error(ErrorCode::invalid_input,
                   str(endpoint_, " does not allow access to ", what, " with the token in use"));
    if (response.status == 429)
      return Error(ErrorCode::io, str(endpoint_, " asks to wait: too many requests for ", what));
    if (response.status >= 400)
      return Error(ErrorCode::io, str(endpoint_, " answers with status ", response.status, " for ", what));
    return Error(ErrorCode::io, str("cannot download ", what, " from ", endpoint_, ": ",
                                    response.failure.empty() ? "the transfer ended early" : response.failure,
                                    "; it is not in the cache either"));
  }

  std::string repo_;
  HubOptions options_;
  RepositoryCache cache_;
  std::string endpoint_;
  std::string token_;
  std::string pinned_;
  bool offline_ = false;
};

struct Address {
  std::string repo, revision, file;
};

// REPO[@REVISION][/FILE]; a revision with a slash cannot be written so.
Address parse_address(const std::string& text) {
  Address address;
  size_t slash = text.find('/');
  const size_t second = slash == std::string::npos ? slash : text.find('/', slash + 1);
  // ORG/NAME/FILE, or NAME/FILE.onnx for the few repositories without an organisation.
  if (second != std::string::npos || !text.ends_with(".onnx")) slash = second;
  address.repo = text.substr(0, slash);
  if (slash != std::string::npos) address.file = text.substr(slash + 1);
  address.revision = "main";
  if (const size_t at = address.repo.find('@'); at != std::string::npos) {
    address.revision = address.repo.substr(at + 1);
    address.repo.erase(at);
  }
  return address;
}

constexpr std::string_view kScheme = "hf:";

}  // namespace
}  // namespace hub

std::string hf(const std::string& repo, const std::string& file, const HubOptions& options) {
  return hub::Session(repo, options).get(file);
}

std::string hf(const std::string& repo, const std::string& file, const std::string& revision) {
  HubOptions options;
  options.revision = revision;
  return hf(repo, file, options);
}

std::vector<std::string> hf_files(const std::string& repo, const HubOptions& options) {
  return hub::Session(repo, options).list();
}

namespace {

// Downloads `files`, then the files that their weights lie in.
HubModel take(hub::Session& session, std::vector<std::string> files) {
  HubModel model;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string path = session.get(files[i]);
    if (!files[i].ends_with(".onnx")) continue;
    if (model.graph.empty()) model.graph = path;
    const size_t slash = files[i].rfind('/');
    for (const std::string& location : onnx::external_files(onnx::read_document(path))) {
      const std::string name = slash == std::string::npos ? location : files[i].substr(0, slash + 1) + location;
      if (std::find(files.begin(), files.end(), name) == files.end()) files.push_back(name);
    }
  }
  model.folder = session.folder();
  model.files = std::move(files);
  return model;
}

}  // namespace

HubModel hf_model(const std::string& repo, const std::string& dtype, const HubOptions& options) {
  hub::Session session(repo, options);
  const std::vector<std::string> all = session.list();
  session.pin();
  try {
    return take(session, hf_choose(all, dtype));
  } catch (Error& error) {
    error.in("repository " + repo);
    throw;
  }
}

std::string hf_path(const std::string& text, const HubOptions& given) {
  if (!text.starts_with(hub::kScheme)) return text;
  const hub::Address address = hub::parse_address(text.substr(hub::kScheme.size()));
  HubOptions options = given;
  options.revision = address.revision;
  if (address.file.empty()) return hf_model(address.repo, "", options).graph;
  if (!address.file.ends_with(".onnx")) return hf(address.repo, address.file, options);
  hub::Session session(address.repo, options);
  return take(session, {address.file}).graph;
}

std::string hf_folder(const std::string& text, const HubOptions& given, const std::string& dtype) {
  if (!text.starts_with(hub::kScheme)) return text;
  const hub::Address address = hub::parse_address(text.substr(hub::kScheme.size()));
  if (!address.file.empty())
    throw Error(ErrorCode::invalid_input, str("\"", text, "\" names a file; a folder is hf:REPO[@REVISION]"));
  HubOptions options = given;
  options.revision = address.revision;
  return hf_model(address.repo, dtype, options).folder;
}

}  // namespace transmuter
