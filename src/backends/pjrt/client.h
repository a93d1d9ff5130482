// A PJRT client: one device of a plugin, its memory and the programs compiled for it. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backends/pjrt/plugin.h"
#include "backends/weight_store.h"
#include "transmuter/backend.h"

namespace transmuter::pjrt {

struct ClientOptions {
  int64_t device = 0;                              // position among the plugin's devices
  std::map<std::string, std::string> plugin = {};  // handed to the plugin as they are
};

class Client;

// Elements in a device's memory. `shape` and `dtype` are the tensor's; packed dtypes lie as their bytes, flat. `room`,
// where it isn't the shape: the extents that they lie under, no smaller, of which the tensor's are the first.
class DeviceBuffer {
 public:
  // Of nothing, until set() hands it what the plugin made: so nothing that was made is lost.
  DeviceBuffer(std::shared_ptr<const Client> client, DType dtype, Shape shape, Shape room = {}, bool zeros = true)
      : client_(std::move(client)),
        dtype_(dtype),
        shape_(std::move(shape)),
        room_(room.empty() ? shape_ : std::move(room)),
        zeros_(zeros) {}
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void set(abi::Buffer* buffer) noexcept { buffer_ = buffer; }

  abi::Buffer* get() const { return buffer_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  const Shape& room() const { return room_; }
  bool zeros() const { return zeros_; }  // what lies in the room behind the tensor's own elements
  // Throws Error(invalid_input) when a run took the memory.
  void check() const;
  // Waits until it is there. Throws what computing it threw, and as check(). The tensor's own elements.
  Tensor download() const;

 private:
  std::shared_ptr<const Client> client_;
  abi::Buffer* buffer_ = nullptr;
  DType dtype_;
  Shape shape_, room_;
  bool zeros_;
};
inline StoredSize stored_size(const DeviceBuffer& buffer) {
  return {name(buffer.dtype()), static_cast<int64_t>(byte_size(buffer.dtype(), element_count(buffer.shape())))};
}
using DeviceBufferPtr = std::shared_ptr<const DeviceBuffer>;

// A compiled program on its device. Runs of it may be under way when it goes: it waits for them.
class Loaded {
 public:
  explicit Loaded(std::shared_ptr<const Client> client) : client_(std::move(client)) {}
  ~Loaded();
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  void set(abi::LoadedExecutable* executable) noexcept { executable_ = executable; }

  // Starts it: `results`, being computed, are the caller's. Inputs listed in `kept` are not donated though the program
  // says that they may be.
  void run(std::span<abi::Buffer* const> inputs, const std::vector<int64_t>& kept,
           std::span<abi::Buffer*> results) const;
  std::string serialized() const;   // "" where the plugin cannot
  int64_t temporary_bytes() const;  // working memory of a run; 0 where the plugin doesn't say

 private:
  abi::Executable* inner() const;  // the caller's; null where the plugin doesn't say
  void forget_finished() const noexcept;

  std::shared_ptr<const Client> client_;
  abi::LoadedExecutable* executable_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::list<abi::Event*> running_;  // the ends of runs that were under way when somebody last looked
};

class Client : public std::enable_shared_from_this<Client> {
 public:
  // Throws Error: invalid_input (no such device, an option that the plugin refuses), or what the plugin says.
  static std::shared_ptr<const Client> create(std::shared_ptr<const Plugin> plugin, const ClientOptions& options);
  ~Client();

  // Copies the elements, at once; or, as a weight, uses them where they are if the device can, and keeps them while it
  // does.
  DeviceBufferPtr upload(const Tensor& tensor, bool weight) const;
  // A copy under other extents, zeros behind; no packed dtype.
  DeviceBufferPtr upload(const Tensor& tensor, const Shape& room) const;
  // `thrifty`: things are computed when they are needed, not as early as they can be; only XLA for CPUs is told.
  std::shared_ptr<const Loaded> compile(const std::string& text, bool thrifty = false) const;
  std::shared_ptr<const Loaded> load(const std::string& serialized) const;  // null: not of this plugin
  MemoryFigures memory() const;

  const Plugin& plugin() const { return *plugin_; }
  // What serialized programs depend on beside their text: plugin, versions, device, processor.
  const std::string& identity() const { return identity_; }
  bool is_cpu() const { return platform_ == "cpu" || platform_ == "Host"; }

 private:
  Client(std::shared_ptr<const Plugin> plugin, abi::Client* client) : plugin_(std::move(plugin)), client_(client) {}
  void choose_device(int64_t position);
  // `done`: when the host's memory is free again; null: nobody asks.
  abi::Buffer* upload_bytes(const Tensor& tensor, abi::HostSemantics semantics, abi::Event** done) const;

  std::shared_ptr<const Plugin> plugin_;
  abi::Client* client_;
  abi::Device* device_ = nullptr;
  int device_id_ = 0;
  int64_t position_ = 0;
  std::string platform_, identity_;
  mutable std::atomic<bool> knows_order_ = true;  // of computing things
};

}  // namespace transmuter::pjrt
