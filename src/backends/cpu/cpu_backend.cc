#include "backends/cpu/cpu_backend.h"

#include <map>
#include <mutex>

#include "backends/cpu/run/executable.h"
#include "backends/cpu/run/grown.h"
#include "backends/cpu/steps/takes.h"
#include "backends/kept_buffer.h"
#include "ir/composites/composites.h"

namespace transmuter {
namespace {

// One pool for each number of threads, kept: threads are dear to start. Whoever asks for as many threads shares one, so
// that compiled models which run at once don't have more threads than that, callers aside.
std::shared_ptr<ThreadPool> pool_of(int threads) {
  static std::mutex mutex;
  static std::map<int, std::shared_ptr<ThreadPool>> pools;
  static const int usable = ThreadPool::usable_cores();
  if (threads <= 0) threads = usable;
  const std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<ThreadPool>& pool = pools[threads];
  if (!pool) pool = std::make_shared<ThreadPool>(threads);
  return pool;
}

class CpuBackend : public Backend {
 public:
  std::string name() const override { return "cpu"; }
  Capabilities capabilities() const override {
    return {.symbolic_shapes = true, .data_dependent_extents = true, .host_memory = true};
  }
  bool takes_composite(const ir::Program& program, const ir::Op& op) const override {
    if (op.primitive->evaluate || cpu::normalize_takes(program, op) || cpu::attention_takes(program, op) ||
        cpu::quantized_dot_takes(program, op) || cpu::table_dot_takes(program, op) || cpu::rotary_takes(program, op) ||
        cpu::topk_takes(program, op) || cpu::write_rows_takes(program, op))
      return true;
    const DType dtype = program.type(op.results[0]).dtype;
    const bool small_float = dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
    if (op.primitive == &ir::composite::gelu) return small_float;
    return op.primitive == &ir::composite::silu && small_float && op.as<ir::SiluAttributes>().alpha == 1;
  }
  Buffer upload(const Tensor& tensor) const override {
    const Buffer* kept = kept_by(this, tensor);
    return kept ? *kept : Buffer{.host = tensor};
  }
  Tensor download(const Buffer& buffer) const override { return cpu::compacted(buffer, nullptr); }
  std::unique_ptr<Executable> compile(const ir::Program& program, const BackendOptions& options) const override {
    BackendOptions full = options;
    if (!full.weights) full.weights = std::make_shared<WeightStore>();
    if (!full.state) full.state = std::make_shared<RunState>();
    return std::make_unique<cpu::CpuExecutable>(program, pool_of(options.threads), full);
  }
};

}  // namespace

std::shared_ptr<Backend> make_cpu_backend() { return std::make_shared<CpuBackend>(); }

}  // namespace transmuter
