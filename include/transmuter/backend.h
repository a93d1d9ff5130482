// Backends: what compiles and runs IR programs. Backend::get("cpu") is the native engine, "reference" the plainest
// evaluator (the meaning of the IR), further ones where built. Every Backend may be used from several threads.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transmuter/tensor.h"

namespace transmuter {

namespace ir {
class Program;
struct Op;
}  // namespace ir
class Bindings;

// Host memory in which a value can grow along one axis: a dense tensor of its capacity, of which the first `used` rows
// along `axis` were written (the high-water mark). Rows once written stay as they are while anybody may read them.
struct GrowingStorage {
  Tensor memory;
  int64_t axis = 0;
  std::atomic<int64_t> used = 0;
};

// A tensor where a backend keeps it; copies share the storage.
struct Buffer {
  Tensor host;                                   // dense on the host, sharing memory with the Tensor it came from; or
  std::shared_ptr<GrowingStorage> growing = {};  // the first elements of it, with its strides; or
  std::shared_ptr<void> device = {};             // whatever the backend keeps.
  Shape shape = {};                              // of what is not on the host
  bool donated = false;                          // an input that nobody else reads: the executable may overwrite it
  bool keeps_room = false;                       // an input: what appends to it may lie in memory with room to grow
};

struct Capabilities {
  bool symbolic_shapes = false;         // binds extents at run time: one Executable for all sizes
  bool data_dependent_extents = false;  // runs nonzero, nms, unique, compress inside a program
  bool host_memory = false;
};

struct BackendOptions {
  int threads = 0;     // 0: one per physical core
  bool passes = true;  // optimisations that change no meaning
  // What executables share, where not null: prepacked weights, those of one model; counters and working memory, those
  // of one compiled model.
  std::shared_ptr<class WeightStore> weights;
  std::shared_ptr<struct RunState> state;
};

struct ExecutableStats {
  size_t steps = 0;
  size_t arena_bytes = 0;   // held by all executables that share a state
  size_t weight_bytes = 0;  // packed or copied weights this executable holds
  size_t plans = 0;         // made for new sizes so far, and the time that took; likewise of all
  double plan_ms = 0;
};

// Of the memory that a backend computes in; -1: it doesn't say.
struct MemoryFigures {
  int64_t in_use = -1;
  int64_t peak = -1;
  int64_t limit = -1;
};

class Executable {
 public:
  virtual ~Executable() = default;
  // `inputs`: the program's input parameters in order. Bindings hold the symbols of the inputs; data-dependent ones are
  // added. Thread-safe.
  virtual std::vector<Buffer> run(std::span<Buffer> inputs, Bindings& bindings) const = 0;
  virtual ExecutableStats stats() const { return {}; }
  // Frees what can be made again cheaply (plans for sizes met before). Runs in flight keep what they use.
  virtual void trim() const {}
};

class Backend : public std::enable_shared_from_this<Backend> {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual Capabilities capabilities() const = 0;
  // A composite that this backend runs as it is; any other is inlined before compile().
  virtual bool takes_composite(const ir::Program& program, const ir::Op& op) const = 0;
  virtual Buffer upload(const Tensor& tensor) const = 0;
  // Dense; what lies in memory with room is copied out of it, here and nowhere else.
  virtual Tensor download(const Buffer& buffer) const = 0;
  virtual std::unique_ptr<Executable> compile(const ir::Program& program, const BackendOptions& options) const = 0;

  virtual MemoryFigures memory() const { return {}; }

  // "cpu", "reference", or "pjrt[:PLUGIN][,OPTION=VALUE ...]" (guides/backends.md). Throws Error(not_found) that lists
  // what there is. The same name gives the same backend.
  static std::shared_ptr<Backend> get(const std::string& name);
  // Those that are always there.
  static std::vector<std::string> names();
};

}  // namespace transmuter
