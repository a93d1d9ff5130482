// Requests to a hub. Only http and https, certificates checked; nothing is retried here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace transmuter::hub {

struct Request {
  std::string url;
  std::string token;  // sent to the url's own host only; "" = none
  bool head = false;
  bool follow = false;     // redirects to other hosts too, without the token
  int64_t from = 0;        // first byte that is wanted
  int64_t timeout_s = 10;  // without an answer, or without a byte of one
};

struct Response {
  int status = 0;                              // 0: no answer
  std::map<std::string, std::string> headers;  // names in lower case; of the last answer
  std::string url;                             // after redirects on the same host
  std::string body;                            // what no sink took, at most 16 MB
  std::string failure;                         // why there is no (whole) answer
  bool cancelled = false;                      // by the sink

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

// sink(status, headers, bytes) takes the body of answers 200 and 206 in pieces; false stops. Redirects that stay on the
// host are followed.
using Sink = std::function<bool(const Response&, std::string_view)>;
Response perform(const Request& request, const Sink& sink = {});

// "https://host:port" of a url; "" if it is none.
std::string origin(const std::string& url);
std::string quoted(const std::string& text, bool keep_slashes);

}  // namespace transmuter::hub
