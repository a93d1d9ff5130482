#include "backends/pjrt/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <sstream>

#include "base/environment.h"
#include "base/strings.h"

namespace transmuter::pjrt {

namespace fs = std::filesystem;
using abi::Function;

namespace {

constexpr int kOldestMinor = 54;  // what the blocks in abi.h were compared with, at the old end
constexpr size_t kMaxMessage = 600;

// What a run needs lies up to here; what lies behind may be missing.
constexpr Function kLastNeeded = Function::buffer_ready_event;

size_t offset_of(Function function) { return sizeof(abi::Api) + static_cast<size_t>(function) * sizeof(void*); }

transmuter::ErrorCode code_of(int code) {
  switch (code) {
    case abi::kResourceExhausted:
      return transmuter::ErrorCode::out_of_memory;
    case abi::kUnimplemented:
      return transmuter::ErrorCode::unsupported;
    case abi::kInvalidArgument:
      return transmuter::ErrorCode::invalid_input;
    default:
      return transmuter::ErrorCode::internal;
  }
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  if (text.size() > kMaxMessage) text = text.substr(0, kMaxMessage) + " ...";
  return text;
}

const abi::Api* api_of(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw Error(ErrorCode::not_found, str("there is no PJRT plugin ", path));
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    throw Error(ErrorCode::invalid_input,
                str("the PJRT plugin ", path, " cannot be opened: ", one_line(why ? why : "no reason given")));
  }
  const auto get = reinterpret_cast<const abi::Api* (*)()>(dlsym(library, "GetPjrtApi"));
  const abi::Api* api = get ? get() : nullptr;
  if (!api) throw Error(ErrorCode::invalid_input, str(path, " is not a PJRT plugin: it gives no GetPjrtApi"));
  if (api->version.major != 0 || api->version.minor < kOldestMinor || api->struct_size < offset_of(kLastNeeded) + 8) {
    throw Error(ErrorCode::unsupported,
                str("the PJRT plugin ", path, " has interface ", api->version.major, ".", api->version.minor,
                    "; Transmuter works with 0.", kOldestMinor, " and later 0.x"));
  }
  return api;
}

}  // namespace

std::shared_ptr<const Plugin> Plugin::open(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const Plugin>> plugins;
  const std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<const Plugin>& kept = plugins[path];
  if (kept) return kept;
  std::shared_ptr<const Plugin> plugin(new Plugin(path, api_of(path)));
  abi::Block<abi::PluginInitialize> initialize;
  plugin->call(Function::plugin_initialize, initialize, "the PJRT plugin cannot start");
  kept = plugin;
  return kept;
}

void* Plugin::entry(Function function) const noexcept {
  void* address = nullptr;
  if (api_->struct_size >= offset_of(function) + sizeof address)
    std::memcpy(&address, reinterpret_cast<const std::byte*>(api_) + offset_of(function), sizeof address);
  return address;
}

void Plugin::lacks(const char* what) const {
  throw Error(ErrorCode::unsupported, str(what, ": the plugin has no such function")).in("PJRT plugin " + path_);
}

void Plugin::forget(abi::Failure* failure) const noexcept {
  if (!failure) return;
  abi::Block<abi::ErrorDestroy> destroy;
  destroy.error = failure;
  reinterpret_cast<void (*)(abi::ErrorDestroy*)>(entry(Function::error_destroy))(&destroy);
}

void Plugin::fail(abi::Failure* failure, const char* what) const {
  abi::Block<abi::ErrorMessage> message;
  message.error = failure;
  reinterpret_cast<void (*)(abi::ErrorMessage*)>(entry(Function::error_message))(&message);
  abi::Block<abi::ErrorCode> code;
  code.error = failure;
  forget(reinterpret_cast<abi::Failure* (*)(abi::ErrorCode*)>(entry(Function::error_code))(&code));
  Error error(code_of(code.code),
              str(what, ": ", one_line({message.message ? message.message : "", message.message_size})));
  forget(failure);
  throw error.in("PJRT plugin " + path_);
}

void Plugin::destroy(abi::Event* event) const noexcept {
  abi::Block<abi::EventOnly> destroy;
  destroy.event = event;
  call_quietly(Function::event_destroy, destroy);
}

void Plugin::await(abi::Event* event, const char* what) const {
  if (!event) return;
  struct Destroy {
    const Plugin& plugin;
    abi::Event* event;
    ~Destroy() { plugin.destroy(event); }
  } const destroy{*this, event};
  abi::Block<abi::EventOnly> wait;
  wait.event = event;
  call(Function::event_await, wait, what);
}

std::string Plugin::version() const { return str(api_->version.major, ".", api_->version.minor); }

namespace {

// The folders that $NAME lists.
std::vector<std::string> folders_in(const char* name) {
  std::istringstream list(environment(name));
  std::vector<std::string> folders;
  for (std::string folder; std::getline(list, folder, ':');)
    if (!folder.empty()) folders.push_back(std::move(folder));
  return folders;
}

// Folders of installed packages: PREFIX/lib/python3*/{site,dist}-packages.
void add_packages_below(const fs::path& prefix, std::vector<fs::path>& folders) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(prefix / "lib", ignored)) {
    if (!entry.path().filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) folders.push_back(entry.path() / packages);
  }
}

// Of every python3 that a shell finds; pyenv's stands beside a folder with one prefix a version.
void add_packages_on_path(std::vector<fs::path>& folders) {
  std::error_code ignored;
  for (const std::string& folder : folders_in("PATH")) {
    if (!folder.starts_with('/') || !fs::exists(fs::path(folder) / "python3", ignored)) continue;
    const fs::path prefix = fs::path(folder).parent_path();
    add_packages_below(prefix, folders);
    for (const auto& version : fs::directory_iterator(prefix / "versions", ignored))
      add_packages_below(version.path(), folders);
  }
}

bool may_hold_plugins(const std::string& package) {
  return package == "jax_plugins" || package == "xla_plugins" || package == "libtpu" ||
         package.find("pjrt") != std::string::npos;
}

bool looks_like_plugin(const fs::path& path) {
  const std::string name = path.filename().string();
  return path.extension() == ".so" &&
         (name.find("pjrt") != std::string::npos || name.find("plugin") != std::string::npos || name == "libtpu.so");
}

}  // namespace

bool is_for_cpus(const std::string& path) {
  return fs::path(path).filename().string().find("cpu") != std::string::npos;
}

std::vector<std::string> find_plugins() {
  if (const std::string named = environment("TRANSMUTER_PJRT_PLUGIN"); !named.empty()) return {named};
  std::vector<fs::path> folders;
  if (const std::string prefix = environment("VIRTUAL_ENV"); !prefix.empty()) add_packages_below(prefix, folders);
  for (std::string& folder : folders_in("PYTHONPATH")) folders.emplace_back(std::move(folder));
  if (const std::string home = environment("HOME"); !home.empty())
    add_packages_below(fs::path(home) / ".local", folders);
  add_packages_on_path(folders);
  add_packages_below("/usr/local", folders);
  add_packages_below("/usr", folders);
  std::vector<std::string> found;
  std::error_code ignored;
  for (const fs::path& folder : folders) {
    for (const auto& package : fs::directory_iterator(folder, ignored)) {
      if (!may_hold_plugins(package.path().filename().string())) continue;
      fs::recursive_directory_iterator file(package.path(), fs::directory_options::skip_permission_denied, ignored),
          end;
      for (; file != end; file.increment(ignored)) {
        if (file.depth() >= 3) file.disable_recursion_pending();
        if (looks_like_plugin(file->path())) found.push_back(file->path().string());
      }
    }
  }
  std::sort(found.begin(), found.end(), [](const std::string& a, const std::string& b) {
    return std::make_pair(is_for_cpus(a), a) < std::make_pair(is_for_cpus(b), b);
  });
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace transmuter::pjrt
