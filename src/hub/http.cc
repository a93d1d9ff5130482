#include "hub/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "base/strings.h"
#include "transmuter/error.h"
#include "transmuter/hub.h"

namespace transmuter::hub {
namespace {

constexpr int kMaxRedirects = 10;
constexpr size_t kMaxBody = size_t{16} << 20;

struct Transfer {
  CURL* handle = nullptr;
  const Sink* sink = nullptr;
  Response response;
  bool too_large = false;
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

size_t take_header(char* bytes, size_t, size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  std::string_view line(bytes, size);
  if (line.starts_with("HTTP/")) transfer.response.headers.clear();  // the next answer's
  const size_t colon = line.find(':');
  if (colon != std::string_view::npos) {
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
    while (!value.empty() && (value.back() == '\r' || value.back() == '\n' || value.back() == ' '))
      value.remove_suffix(1);
    transfer.response.headers[lower(line.substr(0, colon))] = value;
  }
  return size;
}

// Nothing may be thrown through curl.
size_t take_body(char* bytes, size_t, size_t size, void* user) try {
  auto& transfer = *static_cast<Transfer*>(user);
  long status = 0;
  curl_easy_getinfo(transfer.handle, CURLINFO_RESPONSE_CODE, &status);
  transfer.response.status = static_cast<int>(status);
  if (*transfer.sink && (status == 200 || status == 206)) {
    if ((*transfer.sink)(transfer.response, {bytes, size})) return size;
    transfer.response.cancelled = true;
    return 0;
  }
  if (transfer.response.body.size() + size > kMaxBody) {
    transfer.too_large = true;
    return 0;
  }
  transfer.response.body.append(bytes, size);
  return size;
} catch (...) {
  static_cast<Transfer*>(user)->response.cancelled = true;
  return 0;
}

struct Lists {
  curl_slist* headers = nullptr;
  ~Lists() { curl_slist_free_all(headers); }
  void add(const std::string& line) { headers = curl_slist_append(headers, line.c_str()); }
};

Response perform_once(const Request& request, const Sink& sink) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  const std::unique_ptr<CURL, void (*)(CURL*)> handle(curl_easy_init(), curl_easy_cleanup);
  if (!handle) throw Error(ErrorCode::internal, "libcurl gives no handle");
  CURL* curl = handle.get();
  Transfer transfer;
  transfer.handle = curl;
  transfer.sink = &sink;
  Lists lists;
  lists.add("Accept-Encoding: identity");  // sizes and hashes are of the file itself
  if (!request.token.empty()) lists.add("Authorization: Bearer " + request.token);
  char error[CURL_ERROR_SIZE] = "";
  const std::string range = str(request.from, "-");
  const char* protocols = request.url.starts_with("https:") ? "https" : "http,https";
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, protocols);
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, protocols);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, lists.headers);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "transmuter/0.1; libcurl");
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, static_cast<long>(request.timeout_s));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.timeout_s));
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  if (request.head) curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  if (request.follow) {
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, static_cast<long>(kMaxRedirects));
  }
  if (request.from > 0) curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
  const CURLcode code = curl_easy_perform(curl);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  transfer.response.status = static_cast<int>(status);
  transfer.response.url = request.url;
  if (transfer.too_large)
    transfer.response.failure = "the answer is too large";
  else if (code != CURLE_OK)
    transfer.response.failure = error[0] ? error : curl_easy_strerror(code);
  return std::move(transfer.response);
}

}  // namespace

Response perform(const Request& original, const Sink& sink) {
  Request request = original;
  for (int redirects = 0;; ++redirects) {
    Response response = perform_once(request, sink);
    const bool redirected = response.status >= 300 && response.status < 400 && response.failure.empty();
    const std::string location = response.header("location");
    if (!redirected || location.empty()) return response;
    std::string next = location;
    if (location.starts_with('/') && !location.starts_with("//")) next = origin(request.url) + location;
    if (origin(next) != origin(request.url)) return response;
    if (redirects == kMaxRedirects) {
      response.failure = "the answers lead in circles";
      return response;
    }
    request.url = next;
  }
}

std::string origin(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string::npos) return "";
  return lower(url.substr(0, std::min(url.find_first_of("/?#", scheme + 3), url.size())));
}

std::string quoted(const std::string& text, bool keep_slashes) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
                       byte == '-' || byte == '_' || byte == '.' || byte == '~' || (keep_slashes && byte == '/');
    if (plain)
      out += c;
    else
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

}  // namespace transmuter::hub

namespace transmuter {
bool hub_available() { return true; }
}  // namespace transmuter
