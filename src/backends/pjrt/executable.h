// A program on a PJRT device: compiled programs for sets of sizes, the ones used last kept.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backends/pjrt/capacities.h"
#include "backends/pjrt/client.h"
#include "backends/pjrt/disk_cache.h"
#include "backends/pjrt/program.h"
#include "backends/run_state.h"
#include "backends/weight_store.h"
#include "base/dim.h"

namespace transmuter::pjrt {

// What happens with sizes: a program for each set of them; programs for capacities that all smaller sizes share
// (padded.h); or the former for a few sets, then the latter, which caches that grow get at once.
enum class Sizes : uint8_t { automatic, exact, padded };

class DeviceProgram {
 public:
  // `program`: what place() left for the device. `erf`: the plugin knows that function.
  DeviceProgram(const ir::Program& program, std::shared_ptr<const Client> client,
                std::shared_ptr<const DiskCache> cache, Sizes sizes, bool erf, const BackendOptions& options);

  // Starts a run; the results are on the device, being computed. An input that is donated may lose its memory.
  std::vector<Buffer> run(std::span<Buffer* const> inputs, Bindings& bindings) const;
  ExecutableStats stats() const;
  void trim() const;  // all compiled programs but the one used last

 private:
  struct Result {
    Shape room;
    bool zeros;
  };
  struct Compiled {
    std::mutex mutex;  // of making it
    std::shared_ptr<const Loaded> loaded;
    std::string refusal;        // why it cannot be had with padding
    std::vector<Shape> inputs;  // the extents that they are to lie under
    std::vector<Result> results;
    std::vector<bool> may_donate;             // by parameter
    std::atomic<size_t> temporary_bytes = 0;  // read while another thread makes it
  };
  struct Key {
    std::vector<int64_t> sizes;  // by symbol of symbols_; of a padded one those that it is made for, then the rooms
    bool donates;
    bool padded;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Text;

  bool wants_padding(const std::vector<int64_t>& sizes) const;
  std::shared_ptr<Compiled> compiled(const Key& key, const std::vector<int64_t>& sizes, Bindings& bindings) const;
  Text text(const Key& key, const std::vector<int64_t>& sizes, Bindings& bindings) const;
  void compile(Compiled& entry, const Key& key, const std::vector<int64_t>& sizes, Bindings& bindings) const;
  // By parameter: an input whose memory some result takes, of its dtype, where fits(input, result).
  template <class Fits>
  std::vector<bool> donors(const Fits& fits) const;
  std::shared_ptr<const Loaded> loaded(const std::string& text) const;
  std::optional<Bindings> own_bindings(const std::vector<int64_t>& sizes) const;
  DeviceBufferPtr argument(const Buffer& given, size_t input, const Shape& shape, const Shape& room) const;

  std::shared_ptr<const Client> client_;
  std::shared_ptr<const DiskCache> cache_;
  std::shared_ptr<WeightStore> store_;
  std::shared_ptr<RunState> state_;
  std::vector<ir::Type> input_types_, result_types_;  // in the scope of the trace
  std::vector<std::string> input_names_;
  ir::Program program_;          // in a scope of its own: printing evaluates there
  mutable std::mutex printing_;  // that scope
  std::vector<int32_t> symbols_;
  std::vector<int> parameter_input_;          // by parameter: which input, -1 for a weight
  std::vector<DeviceBufferPtr> weights_;      // by parameter; null for inputs
  std::vector<abi::Buffer*> weight_buffers_;  // of those
  std::vector<bool> may_donate_;              // by parameter: some result has its type
  size_t weight_bytes_ = 0;
  bool thrifty_ = false;  // many weights are widened in each run

  Sizes sizes_;
  std::optional<Capacities> capacities_;  // where something can be padded
  bool appends_ = false;

  mutable std::mutex mutex_;                                               // of what follows
  mutable std::list<std::pair<Key, std::shared_ptr<Compiled>>> compiled_;  // used last first
  mutable std::vector<std::vector<int64_t>> exact_;                        // sizes that have a program of their own
  mutable bool refused_ = false;
};

// The device's part, then the host's on another backend.
class PlacedExecutable : public Executable {
 public:
  PlacedExecutable(std::shared_ptr<const Backend> backend, std::unique_ptr<DeviceProgram> device,
                   std::unique_ptr<Executable> host, std::shared_ptr<const Backend> host_backend, const Placed& placed);
  std::vector<Buffer> run(std::span<Buffer> inputs, Bindings& bindings) const override;
  ExecutableStats stats() const override;
  void trim() const override;

 private:
  std::shared_ptr<const Backend> backend_;
  std::unique_ptr<DeviceProgram> device_;
  std::unique_ptr<Executable> host_;
  std::shared_ptr<const Backend> host_backend_;
  std::vector<size_t> device_inputs_, host_inputs_, host_from_device_;
  std::vector<Placed::Result> results_;
};

inline DeviceBufferPtr on_device(const Buffer& buffer) {
  return std::static_pointer_cast<const DeviceBuffer>(std::shared_ptr<const void>(buffer.device));
}

}  // namespace transmuter::pjrt
