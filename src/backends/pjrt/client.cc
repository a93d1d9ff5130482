#include "backends/pjrt/client.h"

#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <protozero/pbf_writer.hpp>

#include "base/mapped_file.h"
#include "base/strings.h"

namespace transmuter::pjrt {

using abi::Function;

namespace {

abi::ElementType element_type(DType dtype) {
  using T = abi::ElementType;
  switch (dtype) {
    case DType::boolean:
      return T::pred;
    case DType::i8:
      return T::s8;
    case DType::i16:
      return T::s16;
    case DType::i32:
      return T::s32;
    case DType::i64:
      return T::s64;
    case DType::i2:
    case DType::i4:
    case DType::u2:
    case DType::u4:
    case DType::f4e2m1:  // as packed bytes
    case DType::u8:
      return T::u8;
    case DType::u16:
      return T::u16;
    case DType::u32:
      return T::u32;
    case DType::u64:
      return T::u64;
    case DType::f8e4m3fn:
      return T::f8e4m3fn;
    case DType::f8e4m3fnuz:
      return T::f8e4m3fnuz;
    case DType::f8e5m2:
      return T::f8e5m2;
    case DType::f8e5m2fnuz:
      return T::f8e5m2fnuz;
    case DType::f8e8m0:
      return T::f8e8m0;
    case DType::bf16:
      return T::bf16;
    case DType::f16:
      return T::f16;
    case DType::f32:
      return T::f32;
    case DType::f64:
      return T::f64;
    case DType::c64:
      return T::c64;
    case DType::c128:
      return T::c128;
    default:
      throw Error(ErrorCode::unsupported, str("a ", name(dtype), " tensor cannot lie on a PJRT device"));
  }
}

// How it lies there.
Shape stored_shape(DType dtype, const Shape& shape) {
  return is_packed(dtype) ? Shape{static_cast<int64_t>(byte_size(dtype, element_count(shape)))} : shape;
}

// The whole text is a number that its type can hold.
template <class T>
bool is_whole(const std::string& text, T& number) {
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stopped == end;
}

// Numbers, true and false as such, anything else as text.
abi::NamedValue named_value(const std::string& key, const std::string& value) {
  abi::NamedValue named{};
  named.struct_size = sizeof named;
  named.name = key.data();
  named.name_size = key.size();
  named.value_size = 1;
  if (value == "true" || value == "false") {
    named.type = abi::NamedValue::kBool;
    named.truth = value == "true";
  } else if (is_whole(value, named.integer)) {
    named.type = abi::NamedValue::kInteger;
  } else if (is_whole(value, named.real)) {
    named.type = abi::NamedValue::kFloat;
  } else {
    named.type = abi::NamedValue::kString;
    named.string = value.data();
    named.value_size = value.size();
  }
  return named;
}

abi::Client* create_client(const Plugin& plugin, const std::map<std::string, std::string>& options) {
  std::vector<abi::NamedValue> values;
  for (const auto& [key, value] : options) values.push_back(named_value(key, value));
  abi::Block<abi::ClientCreate> create;
  create.options = values.data();
  create.option_count = values.size();
  plugin.call(Function::client_create, create, "the PJRT plugin gives no client");
  return create.client;
}

// A program compiled for the host runs on processors like this one.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string line, text;
  while (std::getline(file, line) && !line.empty())
    if (line.starts_with("model name") || line.starts_with("flags") || line.starts_with("Features")) text += line;
  return text;
}

constexpr int kOptionsVersion = 3;  // of compile_options(): stored programs were compiled with them

std::string file_identity(const std::string& path) {
  std::error_code ignored;
  return str(path, " ", std::filesystem::file_size(path, ignored), " ",
             std::filesystem::last_write_time(path, ignored).time_since_epoch().count());
}

// XLA's own options, as entries of a map from names to values.
template <class Fill>
std::string xla_option(const char* name, const Fill& fill) {
  std::string value, entry;
  fill(protozero::pbf_writer(value));
  protozero::pbf_writer writer(entry);
  writer.add_string(1, name);
  writer.add_message(2, value);
  return entry;
}

// A CompileOptionsProto: one replica on one device. Without its fast minima and maxima XLA keeps NaN on CPUs. In
// `thrifty` order it computes what takes memory when it is needed: by default it widens all packed weights at once.
std::string compile_options(int device_id, bool default_device, bool thrifty) {
  std::string devices, assignment, build, out;
  {
    protozero::pbf_writer writer(build);
    if (!default_device) writer.add_int64(1, device_id);
    writer.add_int64(4, 1);  // replicas
    writer.add_int64(5, 1);  // partitions
    if (!default_device) {
      protozero::pbf_writer(devices).add_packed_int64(1, &device_id, &device_id + 1);
      protozero::pbf_writer assign(assignment);
      assign.add_int32(1, 1);
      assign.add_int32(2, 1);
      assign.add_message(3, devices);
      writer.add_message(9, assignment);
    }
  }
  protozero::pbf_writer writer(out);
  writer.add_message(3, build);
  writer.add_message(7, xla_option("xla_cpu_enable_fast_min_max", [](auto w) { w.add_bool(2, false); }));
  if (thrifty)
    writer.add_message(7, xla_option("xla_cpu_scheduler_type",
                                     [](auto w) { w.add_string(1, "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"); }));
  return out;
}

}  // namespace

DeviceBuffer::~DeviceBuffer() {
  if (!buffer_) return;
  abi::Block<abi::BufferOnly> destroy;
  destroy.buffer = buffer_;
  client_->plugin().call_quietly(Function::buffer_destroy, destroy);
}

namespace {

// Copies the first `extents` elements along each axis from one dense array into another.
void copy_box(const std::byte* from, const Shape& from_shape, std::byte* to, const Shape& to_shape,
              const Shape& extents, size_t width) {
  // Axes that are whole in both, from the end, are one run of bytes with the one before them.
  size_t run = extents.size();
  size_t bytes = width;
  while (run > 0 && from_shape[run - 1] == extents[run - 1] && to_shape[run - 1] == extents[run - 1])
    bytes *= static_cast<size_t>(extents[--run]);
  if (run == 0) {
    std::memcpy(to, from, bytes);
    return;
  }
  const size_t axis = run - 1, length = bytes * static_cast<size_t>(extents[axis]);
  if (element_count(extents) == 0) return;
  std::vector<int64_t> place(axis, 0);
  while (true) {
    size_t from_row = 0, to_row = 0;
    for (size_t i = 0; i < axis; ++i) {
      from_row = from_row * static_cast<size_t>(from_shape[i]) + static_cast<size_t>(place[i]);
      to_row = to_row * static_cast<size_t>(to_shape[i]) + static_cast<size_t>(place[i]);
    }
    std::memcpy(to + to_row * static_cast<size_t>(to_shape[axis]) * bytes,
                from + from_row * static_cast<size_t>(from_shape[axis]) * bytes, length);
    size_t i = axis;
    while (i > 0 && ++place[i - 1] == extents[i - 1]) place[--i] = 0;
    if (i == 0) return;
  }
}

}  // namespace

void DeviceBuffer::check() const {
  abi::Block<abi::BufferIsDeleted> asked;
  asked.buffer = buffer_;
  client_->plugin().call_quietly(Function::buffer_is_deleted, asked);
  if (asked.is_deleted)
    throw Error(ErrorCode::invalid_input,
                str("a ", name(dtype_), " ", shape_, " tensor's memory on the device was given to an earlier run"));
}

Tensor DeviceBuffer::download() const {
  check();
  Tensor tensor(dtype_, room_);
  const Shape stored = stored_shape(dtype_, room_);
  std::vector<int64_t> order(stored.size());  // row-major, however the device has it
  std::iota(order.rbegin(), order.rend(), 0);
  abi::Block<abi::Layout> layout;
  layout.tiled.struct_size = sizeof layout.tiled;
  layout.tiled.minor_to_major = order.data();
  layout.tiled.rank = order.size();
  abi::Block<abi::BufferToHost> copy;
  copy.source = buffer_;
  copy.layout = &layout;
  copy.to = tensor.mutable_bytes();
  copy.size = tensor.nbytes();
  client_->plugin().call(Function::buffer_to_host, copy, "reading a result");
  client_->plugin().await(copy.done, "computing a result");
  if (room_ == shape_) return tensor;
  Tensor own(dtype_, shape_);
  copy_box(tensor.bytes(), room_, own.mutable_bytes(), shape_, shape_, byte_size(dtype_, 1));
  return own;
}

Loaded::~Loaded() {
  for (abi::Event* event : running_) {
    try {
      client_->plugin().await(event, "running a program");
    } catch (const Error&) {  // whoever looks at the results is told
      continue;
    }
  }
  if (!executable_) return;
  abi::Block<abi::LoadedOnly> destroy;
  destroy.executable = executable_;
  client_->plugin().call_quietly(Function::loaded_destroy, destroy);
}

void Loaded::forget_finished() const noexcept {
  const Plugin& plugin = client_->plugin();
  std::erase_if(running_, [&](abi::Event* event) {
    abi::Block<abi::EventIsReady> ready;
    ready.event = event;
    plugin.call_quietly(Function::event_is_ready, ready);
    if (!ready.is_ready) return false;
    plugin.destroy(event);
    return true;
  });
}

void Loaded::run(std::span<abi::Buffer* const> inputs, const std::vector<int64_t>& kept,
                 std::span<abi::Buffer*> results) const {
  abi::Buffer* const* argument_list = inputs.data();
  abi::Buffer** result_list = results.data();
  abi::Block<abi::ExecuteOptions> options;
  options.kept_inputs = kept.data();
  options.kept_input_count = kept.size();
  abi::Block<abi::Execute> execute;
  execute.executable = executable_;
  execute.options = &options;
  execute.argument_lists = &argument_list;
  execute.device_count = 1;
  execute.argument_count = inputs.size();
  execute.output_lists = &result_list;
  abi::Event* done = nullptr;
  execute.complete_events = &done;
  std::list<abi::Event*> started(1);  // made before it runs: then nothing fails any more
  client_->plugin().call(Function::loaded_execute, execute, "running a program");
  if (!done) return;
  started.front() = done;
  const std::lock_guard<std::mutex> lock(mutex_);
  forget_finished();
  running_.splice(running_.end(), started);
}

namespace {

struct DestroyExecutable {
  const Plugin& plugin;
  abi::Executable* executable;
  ~DestroyExecutable() {
    if (!executable) return;
    abi::Block<abi::ExecutableOnly> destroy;
    destroy.executable = executable;
    plugin.call_quietly(Function::executable_destroy, destroy);
  }
};

}  // namespace

abi::Executable* Loaded::inner() const {
  abi::Block<abi::LoadedExecutableOf> get;
  get.loaded = executable_;
  client_->plugin().call_quietly(Function::loaded_executable, get);
  return get.executable;
}

std::string Loaded::serialized() const {
  const Plugin& plugin = client_->plugin();
  if (!plugin.has(Function::executable_serialize) || !plugin.has(Function::deserialize_and_load)) return "";
  const DestroyExecutable executable{plugin, inner()};
  if (!executable.executable) return "";
  struct Bytes : abi::Block<abi::ExecutableSerialize> {
    ~Bytes() {
      if (release) release(owner);
    }
  } serialize;
  serialize.executable = executable.executable;
  plugin.call_quietly(Function::executable_serialize, serialize);  // else it is compiled anew next time
  return std::string(serialize.bytes ? serialize.bytes : "", serialize.bytes ? serialize.size : 0);
}

int64_t Loaded::temporary_bytes() const {
  const Plugin& plugin = client_->plugin();
  const DestroyExecutable executable{plugin, inner()};
  if (!executable.executable) return 0;
  abi::Block<abi::ExecutableMemoryStats> stats;
  stats.executable = executable.executable;
  plugin.call_quietly(Function::executable_memory_stats, stats);
  return stats.temporary_bytes;
}

std::shared_ptr<const Client> Client::create(std::shared_ptr<const Plugin> plugin, const ClientOptions& options) {
  abi::Client* made = nullptr;
  if (is_for_cpus(plugin->path()) && options.plugin.empty() && options.device == 0) {
    // By default they make several devices of one processor. Plugins that don't know the option refuse it.
    try {
      made = create_client(*plugin, {{"cpu_device_count", "1"}});
    } catch (const Error&) {
      made = nullptr;
    }
  }
  try {
    if (!made) made = create_client(*plugin, options.plugin);
  } catch (Error& error) {
    for (const auto& [key, value] : options.plugin) error.in(str("option ", key, "=", value));
    throw;
  }
  std::shared_ptr<Client> client(new Client(std::move(plugin), made));
  client->choose_device(options.device);
  return client;
}

void Client::choose_device(int64_t position) {
  abi::Block<abi::ClientText> text;
  text.client = client_;
  plugin_->call(Function::client_platform_name, text, "asking for the platform");
  platform_ = std::string(text.text, text.text_size);
  plugin_->call(Function::client_platform_version, text, "asking for the platform's version");
  identity_ = str(platform_, "\n", std::string(text.text, text.text_size), "\n", plugin_->version(), "\n",
                  file_identity(plugin_->path()));
  abi::Block<abi::ClientDevices> devices;
  devices.client = client_;
  plugin_->call(Function::client_addressable_devices, devices, "asking for devices");
  if (position < 0 || static_cast<size_t>(position) >= devices.count)
    throw Error(ErrorCode::invalid_input, str("there is no device ", position, "; the plugin has ", devices.count))
        .in("PJRT plugin " + plugin_->path());
  position_ = position;
  device_ = devices.devices[position];
  abi::Block<abi::DeviceDescriptionOf> description;
  description.device = device_;
  plugin_->call(Function::device_description, description, "asking for a device");
  abi::Block<abi::DescriptionId> id;
  id.description = description.description;
  plugin_->call(Function::description_id, id, "asking for a device");
  device_id_ = id.id;
  abi::Block<abi::DescriptionText> kind;
  kind.description = description.description;
  plugin_->call(Function::description_kind, kind, "asking for a device");
  identity_ += str("\n", std::string(kind.text, kind.text_size), " ", position);
  identity_ += str("\n", kOptionsVersion);
  if (is_cpu()) identity_ += "\n" + processor();
}

Client::~Client() {
  abi::Block<abi::ClientOnly> destroy;
  destroy.client = client_;
  plugin_->call_quietly(Function::client_destroy, destroy);
}

namespace {

// The program is ours, not an input.
[[noreturn]] void rethrow(const Error& error) {
  if (error.code() != ErrorCode::invalid_input) throw error;
  throw Error(ErrorCode::unsupported, error.what());
}

// A weight that the device reads or copies; afterwards its pages of a mapped file may go.
struct HeldWeight {
  const Plugin& plugin;
  Tensor tensor;
};

void release_weight(abi::Failure* failure, void* argument) {
  const std::unique_ptr<HeldWeight> held(static_cast<HeldWeight*>(argument));
  held->plugin.forget(failure);
  release_pages(held->tensor.bytes(), held->tensor.nbytes());
}

}  // namespace

abi::Buffer* Client::upload_bytes(const Tensor& tensor, abi::HostSemantics semantics, abi::Event** done) const {
  const Shape stored = stored_shape(tensor.dtype(), tensor.shape());
  abi::Block<abi::BufferFromHost> from;
  from.client = client_;
  from.data = tensor.bytes();
  from.type = element_type(tensor.dtype());
  from.dims = stored.data();
  from.rank = stored.size();
  from.semantics = semantics;
  from.device = device_;
  plugin_->call(Function::client_buffer_from_host, from, "moving a tensor to the device");
  if (done)
    *done = from.done_with_host;
  else if (from.done_with_host)
    plugin_->destroy(from.done_with_host);
  return from.buffer;
}

DeviceBufferPtr Client::upload(const Tensor& tensor, bool weight) const {
  auto buffer = std::make_shared<DeviceBuffer>(shared_from_this(), tensor.dtype(), tensor.shape());
  if (!weight) {
    buffer->set(upload_bytes(tensor, abi::HostSemantics::copied_during_call, nullptr));
    return buffer;
  }
  auto held = std::make_unique<HeldWeight>(HeldWeight{*plugin_, tensor});
  abi::Event* done = nullptr;
  buffer->set(upload_bytes(tensor, abi::HostSemantics::zero_copy, &done));
  if (!done) return buffer;
  abi::Block<abi::EventOnReady> ready;
  ready.event = done;
  ready.callback = release_weight;
  ready.argument = held.get();
  try {
    plugin_->call(Function::event_on_ready, ready, "moving a tensor to the device");
  } catch (...) {
    buffer.reset();
    abi::Block<abi::EventOnly> wait;  // the device may read the elements until then
    wait.event = done;
    plugin_->call_quietly(Function::event_await, wait);
    plugin_->destroy(done);
    throw;
  }
  static_cast<void>(held.release());  // the callback's now
  plugin_->destroy(done);
  return buffer;
}

DeviceBufferPtr Client::upload(const Tensor& tensor, const Shape& room) const {
  if (tensor.shape() == room) return upload(tensor, false);
  Tensor wide = Tensor::zeros(tensor.dtype(), room);
  copy_box(tensor.bytes(), tensor.shape(), wide.mutable_bytes(), room, tensor.shape(), byte_size(tensor.dtype(), 1));
  auto buffer = std::make_shared<DeviceBuffer>(shared_from_this(), tensor.dtype(), tensor.shape(), room);
  buffer->set(upload_bytes(wide, abi::HostSemantics::copied_during_call, nullptr));
  return buffer;
}

std::shared_ptr<const Loaded> Client::compile(const std::string& text, bool thrifty) const {
  constexpr std::string_view kFormat = "mlir";
  const auto compiled = [&](bool in_order) {
    const std::string options = compile_options(device_id_, position_ == 0, in_order);
    abi::Block<abi::ProgramText> program;
    program.code = text.data();
    program.code_size = text.size();
    program.format = kFormat.data();
    program.format_size = kFormat.size();
    abi::Block<abi::ClientCompile> compile;
    compile.client = client_;
    compile.program = &program;
    compile.options = options.data();
    compile.options_size = options.size();
    auto loaded = std::make_shared<Loaded>(shared_from_this());
    plugin_->call(Function::client_compile, compile, "the plugin cannot compile a program");
    loaded->set(compile.executable);
    return loaded;
  };
  if (thrifty && is_cpu() && knows_order_) {
    try {
      return compiled(true);
    } catch (const Error& error) {  // older ones don't know the option
      if (std::string_view(error.what()).find("xla_cpu_scheduler_type") == std::string_view::npos) rethrow(error);
      knows_order_ = false;
    }
  }
  try {
    return compiled(false);
  } catch (const Error& error) {
    rethrow(error);
  }
}

std::shared_ptr<const Loaded> Client::load(const std::string& serialized) const {
  auto loaded = std::make_shared<Loaded>(shared_from_this());
  abi::Block<abi::Deserialize> load;
  load.client = client_;
  load.bytes = serialized.data();
  load.size = serialized.size();
  try {
    plugin_->call(Function::deserialize_and_load, load, "loading a stored program");
  } catch (const Error&) {
    return nullptr;
  }
  loaded->set(load.executable);
  return loaded;
}

MemoryFigures Client::memory() const {
  MemoryFigures figures;
  abi::Block<abi::DeviceMemoryStats> stats;
  stats.device = device_;
  if (!plugin_->has(Function::device_memory_stats)) return figures;
  try {
    plugin_->call(Function::device_memory_stats, stats, "asking for memory");
  } catch (const Error&) {  // CPUs don't say
    return figures;
  }
  figures.in_use = stats.bytes_in_use;
  if (stats.has_peak_bytes) figures.peak = stats.peak_bytes;
  if (stats.has_bytes_limit) figures.limit = stats.bytes_limit;
  return figures;
}

}  // namespace transmuter::pjrt
