#include "backends/pjrt/executable.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>

#include "backends/pjrt/padded.h"
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
constexpr size_t kExactSizes = 2;      // sets of sizes with a program of their own, before programs for capacities
constexpr size_t kManyNarrowBytes = size_t{16} << 20;  // of weights that a CPU widens: not all at once
// The least room, in rows: of caches that grow from run to run, of anything else.
constexpr int64_t kLeastCache = 256, kLeastText = 16;

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

template <class Fits>
std::vector<bool> DeviceProgram::donors(const Fits& fits) const {
  std::vector<bool> donors, taken(result_types_.size());
  for (const int input : parameter_input_) {
    donors.push_back(false);
    for (size_t r = 0; input >= 0 && r < taken.size() && !donors.back(); ++r) {
      const size_t i = static_cast<size_t>(input);
      if (taken[r] || input_types_[i].dtype != result_types_[r].dtype || !fits(i, r)) continue;
      donors.back() = taken[r] = true;
    }
  }
  return donors;
}

DeviceProgram::DeviceProgram(const ir::Program& program, std::shared_ptr<const Client> client,
                             std::shared_ptr<const DiskCache> cache, Sizes sizes, bool erf,
                             const BackendOptions& options)
    : client_(std::move(client)),
      cache_(std::move(cache)),
      store_(options.weights ? options.weights : std::make_shared<WeightStore>()),
      state_(options.state ? options.state : std::make_shared<RunState>()),
      program_(device_form(program, options.passes, options.passes && client_->is_cpu(), erf)),
      sizes_(sizes) {
  {
    const ShapeScope::Enter enter(program.scope());
    for (const ir::Value result : program.results()) result_types_.push_back(program.type(result));
    for (const ir::Parameter& parameter : program.parameters()) {
      if (parameter.kind != ir::Parameter::Kind::input) continue;
      input_types_.push_back(program.type(parameter.value));
      input_names_.push_back(parameter.name);
    }
    size_t narrow_bytes = 0;
    for (const ir::Parameter& parameter : program.parameters())
      if (parameter.kind == ir::Parameter::Kind::weight && bit_width(parameter.weight.dtype()) < 32)
        narrow_bytes += parameter.weight.nbytes();
    thrifty_ = narrow_bytes > kManyNarrowBytes;
    int input = 0;
    for (const ir::Parameter& parameter : program_.parameters()) {
      const bool is_input = parameter.kind == ir::Parameter::Kind::input;
      parameter_input_.push_back(is_input ? input : -1);
      weights_.push_back(is_input ? nullptr : placed_weight(*client_, parameter, *store_));
      weight_buffers_.push_back(is_input ? nullptr : weights_.back()->get());
      if (!is_input) weight_bytes_ += parameter.weight.nbytes();
      input += is_input ? 1 : 0;
    }
    may_donate_ =
        donors([&](size_t i, size_t r) { return ir::provably_same(input_types_[i].shape, result_types_[r].shape); });
  }
  // They lie on the device now.
  for (size_t i = 0; i < weights_.size(); ++i)
    if (weights_[i]) program_.forget_weight(i);
  symbols_ = symbols_in(program_);
  if (sizes_ == Sizes::exact || !program_.scope()) return;
  const ShapeScope::Enter enter(program_.scope());
  if (std::vector<int32_t> varying = varying_symbols(input_types_, *program_.scope()); !varying.empty()) {
    appends_ = appends_to_inputs(program_);
    capacities_.emplace(program_, std::move(varying), appends_ ? kLeastCache : kLeastText);
  }
}

std::shared_ptr<const Loaded> DeviceProgram::loaded(const std::string& text) const {
  const std::string key = cache_->enabled() ? str(client_->identity(), thrifty_ ? "\nthrifty\n" : "\n", text) : "";
  if (const auto stored = cache_->find(key))
    if (auto found = client_->load(*stored)) return found;
  const Clock::time_point start = Clock::now();
  auto made = client_->compile(text, thrifty_);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (cache_->enabled() && seconds >= kWorthStoring) cache_->store(key, made->serialized());
  return made;
}

// In the scope of program_, which is to be current.
std::optional<Bindings> DeviceProgram::own_bindings(const std::vector<int64_t>& sizes) const {
  std::optional<Bindings> own;
  if (!program_.scope()) return own;
  own.emplace(program_.scope());
  for (size_t i = 0; i < symbols_.size(); ++i) own->set(symbols_[i], sizes[i]);
  return own;
}

// What the plugin compiles, and how values lie there.
struct DeviceProgram::Text {
  std::string text;
  std::string refusal;  // why it cannot be had with padding
  std::vector<Shape> inputs;
  std::vector<Result> results;
  std::vector<bool> may_donate;
};

DeviceProgram::Text DeviceProgram::text(const Key& key, const std::vector<int64_t>& sizes, Bindings& bindings) const {
  const std::lock_guard<std::mutex> lock(printing_);
  const ShapeScope::Enter enter(program_.scope());
  std::optional<Bindings> own = own_bindings(sizes);
  Text made;
  std::optional<Padded> padded;
  if (key.padded) {
    const std::vector<int64_t> rooms = capacities_->rooms(*own);
    padded = padded_form(program_, *capacities_, rooms, made.refusal);
    if (!padded) return made;
    const auto extents = [&](const ir::Type& type) { return own->evaluate(capacities_->room(type.shape, rooms)); };
    for (const ir::Type& type : input_types_) made.inputs.push_back(extents(type));
    for (size_t i = 0; i < result_types_.size(); ++i)
      made.results.push_back({extents(result_types_[i]), padded->zeros[i]});
    made.may_donate = donors([&](size_t i, size_t r) { return made.inputs[i] == made.results[r].room; });
  } else {
    for (const ir::Type& type : input_types_) made.inputs.push_back(bindings.evaluate(type.shape));
    for (const ir::Type& type : result_types_) made.results.push_back({bindings.evaluate(type.shape), true});
    made.may_donate = may_donate_;
  }
  ir::ModuleOptions options;
  if (key.donates)
    for (const bool donor : made.may_donate)
      options.argument_attributes.emplace_back(donor ? "{jax.buffer_donor = true}" : "");
  const ir::Program& program = padded ? padded->program : program_;
  if (padded) options.argument_attributes.resize(key.donates ? program.parameters().size() : 0);
  options.constants = known_floats(program, own ? &*own : nullptr);
  made.text = ir::print_module(program, own ? &*own : nullptr, options);
  return made;
}

void DeviceProgram::compile(Compiled& entry, const Key& key, const std::vector<int64_t>& sizes,
                            Bindings& bindings) const {
  const Clock::time_point start = Clock::now();
  Text made = text(key, sizes, bindings);
  entry.refusal = made.refusal;
  if (!entry.refusal.empty()) return;
  if (const std::string folder = ir::pipeline_options_from_environment().dump_directory; !folder.empty())
    std::ofstream(str(folder, "/pjrt-", std::hash<std::string>()(made.text), ".mlir")) << made.text;
  entry.loaded = loaded(made.text);
  entry.inputs = std::move(made.inputs);
  entry.results = std::move(made.results);
  entry.may_donate = std::move(made.may_donate);
  entry.temporary_bytes = static_cast<size_t>(std::max<int64_t>(0, entry.loaded->temporary_bytes()));
  RunCounters::add(state_->counters.binds);
  RunCounters::add(state_->counters.bind_ns, (Clock::now() - start) / std::chrono::nanoseconds(1));
}

std::shared_ptr<DeviceProgram::Compiled> DeviceProgram::compiled(const Key& key, const std::vector<int64_t>& sizes,
                                                                 Bindings& bindings) const {
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
  if (!entry->refusal.empty()) return entry;
  if (entry->loaded) {
    RunCounters::add(state_->counters.plan_hits);
    told(telemetry::Kind::hit, key);
    return entry;
  }
  told(telemetry::Kind::miss, key);
  telemetry::Span span(telemetry::Kind::bind);
  if (span) span.add(key.padded ? "capacities" : "sizes", str(key.sizes));
  compile(*entry, key, sizes, bindings);
  if (span && !entry->refusal.empty()) span.add("refused", entry->refusal);
  return entry;
}

// One size for long, or a few of them, are worth programs of their own.
bool DeviceProgram::wants_padding(const std::vector<int64_t>& sizes) const {
  if (!capacities_) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (refused_) return false;
  if (sizes_ == Sizes::padded || appends_) return true;
  if (std::find(exact_.begin(), exact_.end(), sizes) != exact_.end()) return false;
  if (exact_.size() >= kExactSizes) return true;
  exact_.push_back(sizes);
  return false;
}

// Where it lies under other extents than it is to, or with something else than zeros behind, it is moved by way of the
// host.
DeviceBufferPtr DeviceProgram::argument(const Buffer& given, size_t input, const Shape& shape,
                                        const Shape& room) const {
  const ir::Type& type = input_types_[input];
  const DeviceBufferPtr there = given.device ? on_device(given) : nullptr;
  const DType dtype = there ? there->dtype() : given.host.dtype();
  if (const Shape& is = there ? there->shape() : given.host.shape(); dtype != type.dtype || is != shape)
    throw Error(ErrorCode::invalid_input, str("the program's input ", input_names_[input], " is ", name(type.dtype),
                                              " ", shape, ", got ", name(dtype), " ", is));
  if (!there) return client_->upload(given.host, room);
  try {
    there->check();
  } catch (Error& error) {
    error.in(str("input ", input_names_[input]));
    throw;
  }
  if (there->room() == room && (there->zeros() || room == shape)) return there;
  const Tensor moved = there->download();
  RunCounters::add(state_->counters.cache_copies);
  RunCounters::add(state_->counters.cache_copy_bytes, static_cast<int64_t>(moved.nbytes()));
  return client_->upload(moved, room);
}

std::vector<Buffer> DeviceProgram::run(std::span<Buffer* const> inputs, Bindings& bindings) const {
  if (inputs.size() != input_types_.size())
    throw Error(ErrorCode::invalid_input,
                str("the program takes ", input_types_.size(), " inputs, got ", inputs.size()));
  std::vector<int64_t> sizes;
  for (const int32_t symbol : symbols_) {
    if (!bindings.has(symbol)) throw Error(ErrorCode::internal, "a size that the program needs has no value");
    sizes.push_back(bindings.value(symbol));
  }
  RunControl::check();
  Key key{sizes, false, false};
  std::shared_ptr<Compiled> entry;
  Tensor told;  // what a padded program is told
  if (wants_padding(sizes)) {
    key = {{}, false, true};
    for (const Buffer* input : inputs) key.donates = key.donates || input->donated;
    for (size_t i = 0; i < sizes.size(); ++i)
      if (!capacities_->varies(symbols_[i])) key.sizes.push_back(sizes[i]);
    {
      const std::lock_guard<std::mutex> lock(printing_);
      const ShapeScope::Enter enter(program_.scope());
      std::optional<Bindings> own = own_bindings(sizes);
      for (const int64_t room : capacities_->rooms(*own)) key.sizes.push_back(room);
      const std::vector<int64_t> values = own->evaluate(capacities_->sizes());
      told = Tensor(values, {static_cast<int64_t>(values.size())});
    }
    entry = compiled(key, sizes, bindings);
    if (!entry->refusal.empty()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      refused_ = true;
      compiled_.remove_if([&](const auto& kept) { return kept.second == entry; });
    }
  }
  if (!entry || !entry->refusal.empty()) {
    key = {sizes, false, false};
    for (size_t p = 0; p < parameter_input_.size(); ++p)
      if (may_donate_[p]) key.donates = key.donates || inputs[static_cast<size_t>(parameter_input_[p])]->donated;
    entry = compiled(key, sizes, bindings);
  }

  std::vector<abi::Buffer*> arguments = weight_buffers_;
  std::vector<DeviceBufferPtr> moved;
  std::vector<int64_t> kept;
  for (size_t p = 0; p < parameter_input_.size(); ++p) {
    if (parameter_input_[p] < 0) continue;
    const size_t input = static_cast<size_t>(parameter_input_[p]);
    const Buffer& given = *inputs[input];
    moved.push_back(argument(given, input, bindings.evaluate(input_types_[input].shape), entry->inputs[input]));
    arguments[p] = moved.back()->get();
    // What was only just moved there belongs to this run.
    const bool is_there = given.device && on_device(given) == moved.back();
    if (key.donates && entry->may_donate[p] && is_there && !given.donated) kept.push_back(static_cast<int64_t>(p));
  }
  if (key.padded) {
    moved.push_back(client_->upload(told, false));
    arguments.push_back(moved.back()->get());
  }
  // What is given twice serves both as it is.
  for (size_t p = 0; key.donates && p < parameter_input_.size(); ++p)
    if (entry->may_donate[p] && std::count(arguments.begin(), arguments.end(), arguments[p]) > 1)
      kept.push_back(static_cast<int64_t>(p));
  std::vector<std::shared_ptr<DeviceBuffer>> made;
  std::vector<Buffer> results;
  for (size_t i = 0; i < result_types_.size(); ++i) {
    made.push_back(std::make_shared<DeviceBuffer>(client_, result_types_[i].dtype,
                                                  bindings.evaluate(result_types_[i].shape), entry->results[i].room,
                                                  entry->results[i].zeros));
    results.push_back(as_buffer(made.back()));
  }
  std::vector<abi::Buffer*> memory(made.size(), nullptr);
  entry->loaded->run(arguments, kept, memory);
  for (size_t i = 0; i < made.size(); ++i) made[i]->set(memory[i]);
  return results;
}

ExecutableStats DeviceProgram::stats() const {
  ExecutableStats stats;
  stats.steps = program_.ops().size();
  stats.weight_bytes = weight_bytes_;
  const std::lock_guard<std::mutex> lock(mutex_);
  stats.plans = compiled_.size();
  for (const auto& [key, entry] : compiled_)
    stats.arena_bytes = std::max(stats.arena_bytes, entry->temporary_bytes.load());
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
  std::vector<Buffer> on_device, on_host, host_given;
  // Before the device's part, which may take an input's memory.
  for (const size_t input : host_inputs_) host_given.push_back({.host = backend_->download(inputs[input])});
  if (device_) {
    std::vector<Buffer*> given;
    for (const size_t input : device_inputs_) given.push_back(&inputs[input]);
    on_device = device_->run(given, bindings);
  }
  if (host_) {
    for (const size_t result : host_from_device_) host_given.push_back({.host = backend_->download(on_device[result])});
    on_host = host_->run(host_given, bindings);
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
