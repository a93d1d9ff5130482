// Whatever the bytes are, a model is read, traced and run by the reference backend, or fails with an Error. At the end
// it prints how many executions came how far.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "limits.h"
#include "mutate.h"
#include "transmuter/error.h"
#include "transmuter/model.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace transmuter;

// Ends runs that a mutation made long: loops with a trip count of millions are legal.
class Watch {
 public:
  Watch() {
    std::thread([this] {
      for (;;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        const std::lock_guard<std::mutex> lock(mutex_);
        if (token_ && std::chrono::steady_clock::now() > until_) token_->cancel();
      }
    }).detach();
  }
  const CancelToken& begin() {
    const std::lock_guard<std::mutex> lock(mutex_);
    until_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
    return token_.emplace();
  }

 private:
  std::mutex mutex_;
  std::optional<CancelToken> token_;
  std::chrono::steady_clock::time_point until_;
};

Tensor filled(DType dtype, const Shape& shape, unsigned variant) {
  const auto count = static_cast<size_t>(element_count(shape));
  if (count > 4096) throw Error(ErrorCode::limit, "more than an execution looks at");
  if (dtype == DType::string) {
    std::vector<std::string> texts(count);
    for (size_t i = 0; i < count; ++i) texts[i] = std::string(i % 3, static_cast<char>('a' + i % 5));
    return Tensor::of_strings(std::move(texts), shape);
  }
  std::vector<int64_t> numbers(count);
  for (size_t i = 0; i < count; ++i)
    numbers[i] = static_cast<int64_t>((i * (variant + 3)) % 7) - static_cast<int64_t>(variant % 3);
  return Tensor(numbers, shape).cast(dtype);
}

Value value_of(const ValueSpec& spec, unsigned variant, int depth = 0) {
  if (depth > 4) throw Error(ErrorCode::limit, "more than an execution looks at");
  switch (spec.kind) {
    case Value::Kind::sequence: {
      std::vector<Value> items;
      for (unsigned i = 0; i < variant % 3 && !spec.element.empty(); ++i)
        items.push_back(value_of(spec.element[0], variant + i, depth + 1));
      return Value::sequence(std::move(items));
    }
    case Value::Kind::optional:
      return Value::optional(variant % 2 == 0 || spec.element.empty()
                                 ? std::vector<Value>()
                                 : std::vector<Value>{value_of(spec.element[0], variant, depth + 1)});
    case Value::Kind::map:
      return Value::map(filled(spec.key_dtype, {3}, 7), filled(spec.dtype, {3}, variant));
    default:
      break;
  }
  Shape shape;
  for (const ValueSpec::Dim& dim : spec.shape)
    shape.push_back(dim.value >= 0 ? dim.value
                                   : 2 + static_cast<int64_t>((dim.symbol.empty() ? 0 : dim.symbol[0]) + variant) % 3);
  return filled(spec.dtype, shape, variant);
}

struct Reached {
  std::atomic<uint64_t> executions{0}, read{0}, traced{0}, ran{0};
  ~Reached() {
    std::fprintf(stderr, "executions %llu: read %llu, traced %llu, ran to the end %llu\n",
                 static_cast<unsigned long long>(executions), static_cast<unsigned long long>(read),
                 static_cast<unsigned long long>(traced), static_cast<unsigned long long>(ran));
  }
};
Reached reached;

void execute(const std::byte* bytes, size_t size) {
  static Watch& watch = *new Watch;
  unsigned variant = 0;
  for (size_t i = 0; i < size; ++i) variant = variant * 31 + std::to_integer<unsigned>(bytes[i]);
  variant = variant >> 8 & 7;
  const Model model = Model::from_bytes({bytes, bytes + size});
  ++reached.read;
  CompileOptions options;
  options.backend = "reference";
  options.threads = 1;
  options.cache_size = 2;
  options.passes = variant != 0;
  options.compute_type = variant == 1 ? "native" : "f32";
  options.max_loop_trips = 64;
  options.eager = variant == 2;
  const CompiledModel run = model.compile(options);
  const RunOptions within{.cancel = &watch.begin()};
  // Twice: the second meets the guards of the first.
  for (unsigned call = 0; call < 2; ++call) {
    TensorMap inputs;
    for (const ValueSpec& spec : model.inputs())
      if (!spec.optional) inputs[spec.name] = value_of(spec, variant + call);
    if (call == 0) {
      run.trace(inputs);
      ++reached.traced;
    }
    run(inputs, within);
    if (call == 0) ++reached.ran;
    if (model.inputs().empty() || inputs.empty()) break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ++reached.executions;
  const fuzzing::Limits limits;
  try {
    execute(reinterpret_cast<const std::byte*>(data), size);
  } catch (const Error&) {
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  if (seed % 32 != 0)
    if (const size_t changed = fuzzing::mutate_model(data, size, max_size, seed)) return changed;
  return LLVMFuzzerMutate(data, size, max_size);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* first, size_t first_size, const uint8_t* second,
                                            size_t second_size, uint8_t* out, size_t capacity, unsigned seed) {
  return fuzzing::cross_models(first, first_size, second, second_size, out, capacity, seed);
}
