// The Trace Event Format: complete events ("X") for spans, instants ("i"), counters ("C") for memory, metadata ("M").
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "base/strings.h"
#include "transmuter/error.h"
#include "transmuter/telemetry.h"

namespace transmuter::telemetry {
namespace {

// A JSON string. What is no UTF-8 becomes U+FFFD: names come from files of all sorts.
void append_quoted(std::string& out, std::string_view text) {
  out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string microseconds(std::chrono::nanoseconds time) {
  char text[48];
  std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(time.count() / 1000),
                static_cast<long long>(time.count() % 1000));
  return text;
}

// All but "ts", which stands at the end.
std::string record_of(const Event& event, long pid) {
  std::string out = "{\"name\":";
  append_quoted(out, event.name);
  out += str(",\"cat\":\"", name(event.kind), "\",\"pid\":", pid, ",\"tid\":", event.thread);
  if (is_span(event.kind)) {
    out += str(",\"ph\":\"X\",\"dur\":", microseconds(event.duration));
  } else if (event.kind == Kind::memory) {
    out += ",\"ph\":\"C\"";
  } else {
    out += ",\"ph\":\"i\",\"s\":\"t\"";
  }
  out += ",\"args\":{";
  const char* comma = "";
  for (const Attribute& attribute : event.attributes) {
    out += comma;
    comma = ",";
    append_quoted(out, attribute.key);
    out += ':';
    if (const auto* text = std::get_if<std::string_view>(&attribute.value)) {
      append_quoted(out, *text);
    } else if (const auto* integer = std::get_if<int64_t>(&attribute.value)) {
      out += std::to_string(*integer);
    } else {
      char number[40];
      const double value = std::get<double>(attribute.value);
      std::snprintf(number, sizeof number, "%.17g", std::isfinite(value) ? value : 0.0);
      out += number;
    }
  }
  if (is_span(event.kind)) {
    out += str(comma, "\"id\":", event.id);
    if (event.parent) out += str(",\"parent\":", event.parent);
    if (event.failed) out += ",\"failed\":true";
  }
  return out + "}";
}

std::string metadata(const char* what, long pid, uint64_t thread, const std::string& value) {
  std::string out =
      str("{\"name\":\"", what, "\",\"ph\":\"M\",\"ts\":0,\"pid\":", pid, ",\"tid\":", thread, ",\"args\":{\"name\":");
  append_quoted(out, value);
  return out + "}}";
}

}  // namespace

struct TraceFile::Impl {
  struct Record {
    std::chrono::steady_clock::time_point start;
    std::chrono::nanoseconds duration;
    std::string text;
  };

  std::string path;
  size_t max_events = 0;
  std::FILE* file = nullptr;
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  long pid = 0;
  std::mutex mutex;  // of what follows
  std::vector<Record> records;
  std::set<uint64_t> threads;
  size_t dropped = 0;
  Subscription subscription;  // the first to go

  ~Impl() {
    subscription.stop();
    if (file) std::fclose(file);
  }

  void keep(const Event& event) {
    std::string text = record_of(event, pid);
    const std::lock_guard<std::mutex> lock(mutex);
    if (records.size() >= max_events) {
      ++dropped;
      return;
    }
    records.push_back({event.start, event.duration, std::move(text)});
    threads.insert(event.thread);
  }

  [[noreturn]] void fail(const char* what) const {
    throw Error(ErrorCode::io, str("cannot ", what, " the trace file ", path, ": ", std::strerror(errno)));
  }
  void write(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), file) != text.size()) fail("write");
  }
};

TraceFile::TraceFile(const std::string& path, const TraceFileOptions& options) : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  impl_->max_events = options.max_events;
  impl_->pid = static_cast<long>(::getpid());
  impl_->file = std::fopen(path.c_str(), "wb");
  if (!impl_->file) impl_->fail("make");
  impl_->subscription = subscribe([impl = impl_.get()](const Event& event) { impl->keep(event); }, options.kinds);
}

TraceFile::~TraceFile() try { close(); } catch (...) {  // close() tells who asks
}

void TraceFile::close() {
  Impl& impl = *impl_;
  if (!impl.file) return;
  impl.subscription.stop();
  // By their starts; of those with the same start, the outer one first.
  std::stable_sort(impl.records.begin(), impl.records.end(), [](const Impl::Record& a, const Impl::Record& b) {
    return a.start != b.start ? a.start < b.start : a.duration > b.duration;
  });
  impl.write("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"writer\":\"transmuter\",\"dropped_events\":" +
             std::to_string(impl.dropped) + "},\"traceEvents\":[\n");
  impl.write(metadata("process_name", impl.pid, 0, "transmuter"));
  for (const uint64_t thread : impl.threads)
    impl.write(",\n" + metadata("thread_name", impl.pid, thread, str("thread ", thread)));
  for (const Impl::Record& record : impl.records) {
    const auto since = std::max(record.start - impl.begun, std::chrono::steady_clock::duration::zero());
    impl.write(",\n" + record.text + ",\"ts\":" + microseconds(since) + "}");
  }
  impl.write("\n]}\n");
  impl.records.clear();
  std::FILE* const file = std::exchange(impl.file, nullptr);
  if (std::fclose(file) != 0) impl.fail("write");
}

}  // namespace transmuter::telemetry
