#include "backends/pjrt/executable.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>

#include "base/run_control.h"
#include "base/strings.h"
#include "ir/passes/pipeline.h"
#include "ir/primitives/infer.h"
#include "ir/print.h"
#include "telemetry/span.h"

namespace transmuter::pjrt {
namespace {

constexpr size_t kKeptPrograms = 16;
constexpr double kWorthStoring = 0.2;  // seconds; what compiles faster isn't worth a file

using Clock = std::chrono::steady_clock;

Buffer as_buffer(const DeviceBufferPtr& buffer) {
  Buffer out;
  out.shape = buffer->shape();
  out.device = std::const_pointer_cast<DeviceBuffer>(buffer);
  return out;
}

// The same memory stands for the same weight: its address is in the key, the store keeps it.
DeviceBufferPtr placed_weight(const Client& client, const ir::Parameter& parameter, WeightStore& store) {
  const Tensor& weight = parameter.weight;
  const auto move = [&] { return client.upload(weight, true); };
  if (parameter.trainable || weight.nbytes() == 0) return move();
  const std::string key =
      str("pjrt ", name(weight.dtype()), " ", weight.shape(), " ", reinterpret_cast<uintptr_t>(weight.bytes()));
  return store.get<DeviceBuffer>(key, weight, move);
}

}  // namespace

DeviceProgram::DeviceProgram(const ir::Program& program, std::shared_ptr<const Client> client,
                             std::shared_ptr<const DiskCache> cache, const BackendOptions& options)
    : client_(std::move(client)),
      cache_(std::move(cache)),
      store_(options.weights ? options.weights : std::make_shared<WeightStore>()),
      state_(options.state ? options.state : std::make_shared<RunState>()),
      program_(device_form(program, options.passes, options.passes && client_->platform() == "cpu")) {
  const ShapeScope::Enter enter(program.scope());
  for (const ir::Value result : program.results()) result_types_.push_back(program.type(result));
  for (const ir::Parameter& parameter : program.parameters()) {
    if (parameter.kind != ir::Parameter::Kind::input) continue;
    input_types_.push_back(program.type(parameter.value));
    input_names_.push_back(parameter.name);
  }
  symbols_ = symbols_in(program_);
  std::vector<bool> taken(result_types_.size());
  int input = 0;
  for (size_t i = 0; i < program_.parameters().size(); ++i) {
    const ir::Parameter& parameter = program_.parameters()[i];
    const bool is_input = parameter.kind == ir::Parameter::Kind::input;
    parameter_input_.push_back(is_input ? input : -1);
    weights_.push_back(is_input ? nullptr : placed_weight(*client_, parameter, *store_));
    if (!is_input) weight_bytes_ += parameter.weight.nbytes();
    may_donate_.push_back(false);
    for (size_t r = 0; is_input && r < taken.size() && !may_donate_.back(); ++r) {
      const ir::Type &given = input_types_[static_cast<size_t>(input)], &made = result_types_[r];
      if (taken[r] || given.dtype != made.dtype || !ir::provably_same(given.shape, made.shape)) continue;
      may_donate_.back() = taken[r] = true;
    }
    input += is_input ? 1 : 0;
  }
  // They lie on the device now.
  for (size_t i = 0; i < weights_.size(); ++i)
    if (weights_[i]) program_.forget_weight(i);
}

std::shared_ptr<const Loaded> DeviceProgram::loaded(const std::string& text) const {
  const std::string key = cache_->enabled() ? client_->identity() + "\n" + text : "";
  if (const auto stored = cache_->find(key))
    if (auto found = client_->load(*stored)) return found;
  const Clock::time_point start = Clock::now();
  auto made = client_->compile(text);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (cache_->enabled() && seconds >= kWorthStoring) cache_->store(key, made->serialized());
  return made;
}

void DeviceProgram::compile(Compiled& entry, const Key& key, Bindings& bindings) const {
  std::vector<Shape> inputs;
  for (const ir::Type& type : input_types_) inputs.push_back(bindings.evaluate(type.shape));
  entry.results.clear();
  for (const ir::Type& type : result_types_) entry.results.emplace_back(type.dtype, bindings.evaluate(type.shape));
  ir::ModuleOptions options;
  if (key.donates)
    for (const bool donor : may_donate_)
      options.argument_attributes.emplace_back(donor ? "{jax.buffer_donor = true}" : "");
  std::string text;
  {
    const std::lock_guard<std::mutex> lock(printing_);
    const ShapeScope::Enter enter(program_.scope());
    std::optional<Bindings> own;
    if (program_.scope()) {
      own.emplace(program_.scope());
      for (size_t i = 0; i < symbols_.size(); ++i) own->set(symbols_[i], key.sizes[i]);
    }
    options.constants = known_floats(program_, own ? &*own : nullptr);
    text = ir::print_module(program_, own ? &*own : nullptr, options);
  }
  if (const std::string folder = ir::pipeline_options_from_environment().dump_directory; !folder.empty())
    std::ofstream(str(folder, "/pjrt-", std::hash<std::string>()(text), ".mlir")) << text;
  entry.loaded = loaded(text);
  entry.inputs = std::move(inputs);
  entry.temporary_bytes = static_cast<size_t>(std::max<int64_t>(0, entry.loaded->temporary_bytes()));
}

std::shared_ptr<DeviceProgram::Compiled> DeviceProgram::compiled(const Key& key, Bindings& bindings) const {
  const telemetry::Deferred until_unlocked;
  const auto told = [&](telemetry::Kind kind, const Key& of) {
    if (telemetry::anybody_listens(kind)) telemetry::tell(kind, "plan", {{"sizes", str(of.sizes)}});
  };
  std::shared_ptr<Compiled> entry;
  {
    std::list<std::pair<Key, std::shared_ptr<Compiled>>> evicted;  // go after the lock
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = compiled_.begin(); it != compiled_.end() && !entry; ++it) {
      if (it->first != key) continue;
      entry = it->second;
      compiled_.splice(compiled_.begin(), compiled_, it);
      break;
    }
    if (!entry) {
      entry = std::make_shared<Compiled>();
      compiled_.emplace_front(key, entry);
      if (compiled_.size() > kKeptPrograms) {
        evicted.splice(evicted.begin(), compiled_, std::prev(compiled_.end()));
        RunCounters::add(state_->counters.plan_evictions);
        told(telemetry::Kind::evict, evicted.front().first);
      }
    }
  }
  const std::lock_guard<std::mutex> lock(entry->mutex);
  if (entry->loaded) {
    RunCounters::add(state_->counters.plan_hits);
    told(telemetry::Kind::hit, key);
    return entry;
  }
  told(telemetry::Kind::miss, key);
  telemetry::Span span(telemetry::Kind::bind);
  if (span) span.add("sizes", str(key.sizes));
  const Clock::time_point start = Clock::now();
  compile(*entry, key, bindings);
  RunCounters::add(state_->counters.binds);
  RunCounters::add(state_->counters.bind_ns, (Clock::now() - start) / std::chrono::nanoseconds(1));
  return entry;
}

void DeviceProgram::check(size_t input, const DeviceBuffer& given, const Shape& want) const {
  const ir::Type& type = input_types_[input];
  if (given.dtype() == type.dtype && given.shape() == want) return;
  throw Error(ErrorCode::invalid_input, str("the program's input ", input_names_[input], " is ", name(type.dtype), " ",
                                            want, ", got ", name(given.dtype()), " ", given.shape()));
}

std::vector<Buffer> DeviceProgram::run(std::span<Buffer* const> inputs, Bindings& bindings) const {
  if (inputs.size() != input_types_.size())
    throw Error(ErrorCode::invalid_input,
                str("the program takes ", input_types_.size(), " inputs, got ", inputs.size()));
  Key key;
  for (const int32_t symbol : symbols_) {
    if (!bindings.has(symbol)) throw Error(ErrorCode::internal, "a size that the program needs has no value");
    key.sizes.push_back(bindings.value(symbol));
  }
  key.donates = false;
  for (size_t p = 0; p < parameter_input_.size(); ++p)
    if (may_donate_[p]) key.donates = key.donates || inputs[static_cast<size_t>(parameter_input_[p])]->donated;
  RunControl::check();
  const auto entry = compiled(key, bindings);

  std::vector<DeviceBufferPtr> arguments = weights_;
  std::vector<int64_t> kept;
  for (size_t p = 0; p < arguments.size(); ++p) {
    if (parameter_input_[p] < 0) continue;
    const size_t input = static_cast<size_t>(parameter_input_[p]);
    const bool is_here = inputs[input]->device != nullptr;
    arguments[p] = is_here ? on_device(*inputs[input]) : client_->upload(inputs[input]->host, false);
    check(input, *arguments[p], entry->inputs[input]);
    // What was only just moved there belongs to this run.
    if (key.donates && may_donate_[p] && is_here && !inputs[input]->donated) kept.push_back(static_cast<int64_t>(p));
  }
  std::vector<Buffer> results;
  for (const DeviceBufferPtr& result : entry->loaded->run(arguments, kept, entry->results))
    results.push_back(as_buffer(result));
  return results;
}

ExecutableStats DeviceProgram::stats() const {
  ExecutableStats stats;
  stats.steps = program_.ops().size();
  stats.weight_bytes = weight_bytes_;
  const std::lock_guard<std::mutex> lock(mutex_);
  stats.plans = compiled_.size();
  for (const auto& [key, entry] : compiled_) stats.arena_bytes = std::max(stats.arena_bytes, entry->temporary_bytes);
  return stats;
}

void DeviceProgram::trim() const {
  std::list<std::pair<Key, std::shared_ptr<Compiled>>> freed;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (compiled_.size() > 1) freed.splice(freed.begin(), compiled_, std::next(compiled_.begin()), compiled_.end());
}

PlacedExecutable::PlacedExecutable(std::shared_ptr<const Backend> backend, std::unique_ptr<DeviceProgram> device,
                                   std::unique_ptr<Executable> host, std::shared_ptr<const Backend> host_backend,
                                   const Placed& placed)
    : backend_(std::move(backend)),
      device_(std::move(device)),
      host_(std::move(host)),
      host_backend_(std::move(host_backend)),
      device_inputs_(placed.device_inputs),
      host_inputs_(placed.host_inputs),
      host_from_device_(placed.host_from_device),
      results_(placed.results) {}

std::vector<Buffer> PlacedExecutable::run(std::span<Buffer> inputs, Bindings& bindings) const {
  std::vector<Buffer> on_device, on_host;
  if (device_) {
    std::vector<Buffer*> given;
    for (const size_t input : device_inputs_) given.push_back(&inputs[input]);
    on_device = device_->run(given, bindings);
  }
  if (host_) {
    std::vector<Buffer> given;
    for (const size_t input : host_inputs_) given.push_back({.host = backend_->download(inputs[input])});
    for (const size_t result : host_from_device_) given.push_back({.host = backend_->download(on_device[result])});
    on_host = host_->run(given, bindings);
    for (Buffer& buffer : on_host) buffer = {.host = host_backend_->download(buffer)};
  }
  std::vector<Buffer> results;
  for (const Placed::Result& result : results_) results.push_back((result.on_host ? on_host : on_device)[result.index]);
  return results;
}

ExecutableStats PlacedExecutable::stats() const {
  ExecutableStats stats = device_ ? device_->stats() : ExecutableStats();
  if (!host_) return stats;
  const ExecutableStats host = host_->stats();
  stats.steps += host.steps;
  stats.weight_bytes += host.weight_bytes;
  stats.arena_bytes += host.arena_bytes;
  return stats;
}

void PlacedExecutable::trim() const {
  if (device_) device_->trim();
  if (host_) host_->trim();
}

}  // namespace transmuter::pjrt
