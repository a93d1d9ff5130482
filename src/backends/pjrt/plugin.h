// A PJRT plugin: a shared library that compiles StableHLO for some device, behind PJRT's C interface. It is opened at
// run time; nothing of it is needed to build. Never unloaded: its threads and static objects don't survive that.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/pjrt/abi.h"
#include "transmuter/error.h"

namespace transmuter::pjrt {

class Plugin {
 public:
  // Opens and initialises the library at `path`; the same path gives the same plugin. Throws Error: not_found (no such
  // file), invalid_input (no library, not a PJRT plugin, or one that fails to start), unsupported (its interface is
  // older than what we need, or another major version).
  static std::shared_ptr<const Plugin> open(const std::string& path);

  // Calls a function of the table. A failure becomes an Error: "WHAT: message".
  template <class Arguments>
  void call(abi::Function function, Arguments& arguments, const char* what) const {
    using Call = abi::Failure* (*)(Arguments*);
    void* address = entry(function);
    if (!address) lacks(what);
    if (abi::Failure* failure = reinterpret_cast<Call>(address)(&arguments)) fail(failure, what);
  }
  // Functions that cannot fail, or where failing changes nothing.
  template <class Arguments>
  void call_quietly(abi::Function function, Arguments& arguments) const noexcept {
    using Call = abi::Failure* (*)(Arguments*);
    if (void* address = entry(function)) forget(reinterpret_cast<Call>(address)(&arguments));
  }
  bool has(abi::Function function) const { return entry(function) != nullptr; }
  void forget(abi::Failure* failure) const noexcept;
  void destroy(abi::Event* event) const noexcept;
  // Waits for an event and destroys it.
  void await(abi::Event* event, const char* what) const;

  const std::string& path() const { return path_; }
  std::string version() const;  // "0.115"

 private:
  Plugin(std::string path, const abi::Api* api) : path_(std::move(path)), api_(api) {}
  void* entry(abi::Function function) const noexcept;  // null where the plugin has none
  [[noreturn]] void lacks(const char* what) const;
  [[noreturn]] void fail(abi::Failure* failure, const char* what) const;

  std::string path_;
  const abi::Api* api_;
};

// By its name, the library at `path` is a plugin for CPUs.
bool is_for_cpus(const std::string& path);

// Plugins on this machine: $TRANSMUTER_PJRT_PLUGIN (only that, where set), else those in installed Python packages
// ($VIRTUAL_ENV, $PYTHONPATH, the user's and the system's), accelerators before CPUs.
std::vector<std::string> find_plugins();

}  // namespace transmuter::pjrt
