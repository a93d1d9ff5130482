// Backends: what compiles and runs IR programs. Backend::get("cpu") is the native engine, "reference" the plainest
// evaluator (the meaning of the IR), further ones where built. Every Backend may be used from several threads.
#pragma once

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

// A tensor where a backend keeps it. On host backends it shares memory with the Tensor it came from.
struct Buffer {
  Tensor host;                   // host backends: the storage itself
  std::shared_ptr<void> device;  // others: whatever the backend keeps
  bool donated = false;          // an input the executable may overwrite
};

struct Capabilities {
  bool symbolic_shapes = false;         // binds extents at run time: one Executable for all sizes
  bool data_dependent_extents = false;  // runs nonzero, nms, unique, compress inside a program
  bool host_memory = false;
};

struct BackendOptions {
  int threads = 0;       // 0: one per physical core
  bool passes = true;    // optimisations that change no meaning
  bool verbose = false;  // the CPU backend: print each step to stderr (TRANSMUTER_VERBOSE)
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

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual Capabilities capabilities() const = 0;
  // A composite that this backend runs as it is; any other is inlined before compile().
  virtual bool takes_composite(const ir::Program& program, const ir::Op& op) const = 0;
  virtual Buffer upload(const Tensor& tensor) const = 0;
  virtual Tensor download(const Buffer& buffer) const = 0;
  virtual std::unique_ptr<Executable> compile(const ir::Program& program, const BackendOptions& options) const = 0;

  // "cpu", "reference", ... Throws Error(not_found) that lists what there is.
  static std::shared_ptr<Backend> get(const std::string& name);
  static std::vector<std::string> names();
};

}  // namespace transmuter
