#include "hub_progress.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace transmuter::cli {

namespace {

using Clock = std::chrono::steady_clock;

// One line, written over again and again.
class Bar {
 public:
  void show(const HubProgress& progress) {
    const Clock::time_point now = Clock::now();
    if (progress.file != file_) {
      file_ = progress.file;
      start_ = now;
      first_ = progress.done;
      shown_ = {};
    }
    const bool complete = progress.done == progress.total;
    if (!complete && now - shown_ < std::chrono::milliseconds(100)) return;
    shown_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const double rate = seconds > 0 ? static_cast<double>(progress.done - first_) / seconds / 1e6 : 0;
    std::string name = file_;
    if (name.size() > 32) name = "..." + name.substr(name.size() - 29);
    const double done = static_cast<double>(progress.done), total = static_cast<double>(progress.total);
    if (progress.total > 0) {
      char cells[25] = "------------------------";
      for (int i = 0; i < 24 && i < static_cast<int>(24 * done / total); ++i) cells[i] = '#';
      std::fprintf(stderr, "\r%-32s [%s] %3d%%  %.1f/%.1f MB  %.1f MB/s ", name.c_str(), cells,
                   static_cast<int>(100 * done / total), done / 1e6, total / 1e6, rate);
    } else {
      std::fprintf(stderr, "\r%-32s %.1f MB  %.1f MB/s ", name.c_str(), done / 1e6, rate);
    }
    if (complete) std::fprintf(stderr, "\n");
    std::fflush(stderr);
  }

 private:
  std::string file_;
  Clock::time_point start_, shown_;
  int64_t first_ = 0;
};

}  // namespace

HubOptions with_progress(HubOptions options) {
  const char* disabled = std::getenv("HF_HUB_DISABLE_PROGRESS_BARS");
  const std::string_view word = disabled ? disabled : "";
  if (!::isatty(STDERR_FILENO) || word == "1" || word == "true" || word == "yes" || word == "on") return options;
  auto bar = std::make_shared<Bar>();
  options.progress = [bar](const HubProgress& progress) {
    bar->show(progress);
    return true;
  };
  return options;
}

std::string local_path(const std::string& text) { return hf_path(text, with_progress()); }
std::string local_folder(const std::string& text, const std::string& dtype) {
  return hf_folder(text, with_progress(), dtype);
}

}  // namespace transmuter::cli
