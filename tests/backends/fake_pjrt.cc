// A PJRT plugin that computes nothing: what it is told to it fails at. Built three times: as it is, as one that is too
// old (FAKE_MINOR), and as a library that is no plugin (FAKE_NOTHING).
//
// Client options: fail=client|compile|upload|run|read|store|load, count=N devices, slow=true: compiling takes a while.
// A program gives its first argument back; if it may be donated, its memory is gone then. fake_pjrt() gives what
// fake_pjrt.h says.
#include "fake_pjrt.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backends/pjrt/abi.h"

#ifndef FAKE_MINOR
#define FAKE_MINOR 100
#endif

namespace {

namespace abi = transmuter::pjrt::abi;

transmuter::testing::FakePjrt state;

struct Counted {
  Counted() { ++state.live; }
  Counted(const Counted&) { ++state.live; }
  ~Counted() { --state.live; }
};
struct Failure : Counted {
  Failure(int c, std::string m) : code(c), message(std::move(m)) {}
  int code;
  std::string message;
};
struct Client {
  std::string fails;
  bool slow = false;
  std::vector<int> devices;
  std::vector<abi::Device*> device_pointers;
};
// Something that ends, and who wants to know.
struct Course {
  bool over = false;
  void (*callback)(abi::Failure*, void*) = nullptr;
  void* argument = nullptr;
  void end() {
    over = true;
    if (callback) callback(nullptr, argument);
    callback = nullptr;
  }
};
struct Event : Counted {
  explicit Event(std::shared_ptr<Course> c) : course(std::move(c)) {}
  std::shared_ptr<Course> course;
};
struct Buffer : Counted {
  Client* client = nullptr;
  std::vector<std::byte> own;
  const std::byte* bytes = nullptr;  // where they are: own, or the host's
  size_t size = 0;
  std::shared_ptr<Course> use_of_host;
  std::atomic<bool> is_deleted = false;
  ~Buffer() {
    if (use_of_host) use_of_host->end();
  }
};
struct Loaded : Counted {
  Loaded(Client* c, bool d) : client(c), donates(d) {}
  Client* client;
  bool donates;
};

template <class To, class From>
To* as(From* from) {
  return reinterpret_cast<To*>(from);
}

abi::Failure* failure(int code, const std::string& message) { return as<abi::Failure>(new Failure{code, message}); }

bool fails(const Client* client, const char* at) { return client->fails == at; }

size_t bytes_of(const abi::BufferFromHost& from) {
  static const std::map<abi::ElementType, size_t> kSizes = {
      {abi::ElementType::f32, 4}, {abi::ElementType::s64, 8}, {abi::ElementType::u8, 1}, {abi::ElementType::pred, 1}};
  size_t bytes = kSizes.at(from.type);
  for (size_t i = 0; i < from.rank; ++i) bytes *= static_cast<size_t>(from.dims[i]);
  return bytes;
}

void error_destroy(abi::ErrorDestroy* a) { delete as<Failure>(a->error); }
void error_message(abi::ErrorMessage* a) {
  const auto* error = reinterpret_cast<const Failure*>(a->error);
  a->message = error->message.data();
  a->message_size = error->message.size();
}
abi::Failure* error_code(abi::ErrorCode* a) {
  a->code = reinterpret_cast<const Failure*>(a->error)->code;
  return nullptr;
}
abi::Failure* nothing(abi::Header*) { return nullptr; }

abi::Failure* event_destroy(abi::EventOnly* a) {
  delete as<Event>(a->event);
  return nullptr;
}
abi::Failure* event_is_ready(abi::EventIsReady* a) {
  a->is_ready = as<Event>(a->event)->course->over;
  return nullptr;
}
abi::Failure* event_await(abi::EventOnly* a) {
  if (!as<Event>(a->event)->course->over) return failure(13, "nobody will end this");
  return nullptr;
}
abi::Failure* event_on_ready(abi::EventOnReady* a) {
  Course& course = *as<Event>(a->event)->course;
  course.callback = a->callback;
  course.argument = a->argument;
  if (course.over) course.end();
  return nullptr;
}
abi::Event* finished() {
  auto course = std::make_shared<Course>();
  course->over = true;
  return as<abi::Event>(new Event(std::move(course)));
}

abi::Failure* client_create(abi::ClientCreate* a) {
  auto client = std::make_unique<Client>();
  size_t count = 2;
  for (size_t i = 0; i < a->option_count; ++i) {
    const abi::NamedValue& option = a->options[i];
    const std::string name(option.name, option.name_size);
    if (name == "fail") {
      client->fails.assign(option.string, option.value_size);
    } else if ((name == "count" || name == "cpu_device_count") && option.type == abi::NamedValue::kInteger) {
      count = static_cast<size_t>(option.integer);
    } else if (name == "slow") {
      client->slow = option.truth;
    } else {
      return failure(abi::kInvalidArgument, "unknown option " + name);
    }
  }
  if (fails(client.get(), "client")) return failure(13, "no device answers\nat all");
  client->devices.resize(count);
  for (int& device : client->devices) client->device_pointers.push_back(as<abi::Device>(&device));
  a->client = as<abi::Client>(client.release());
  return nullptr;
}
abi::Failure* client_text(abi::ClientText* a) {
  a->text = "fake";
  a->text_size = 4;
  return nullptr;
}
abi::Failure* client_devices(abi::ClientDevices* a) {
  const auto* client = as<const Client>(a->client);
  a->devices = client->device_pointers.data();
  a->count = client->device_pointers.size();
  return nullptr;
}
abi::Failure* device_description(abi::DeviceDescriptionOf* a) {
  a->description = as<abi::DeviceDescription>(a->device);
  return nullptr;
}
abi::Failure* description_kind(abi::DescriptionText* a) {
  a->text = "none";
  a->text_size = 4;
  return nullptr;
}
abi::Failure* memory_stats(abi::DeviceMemoryStats* a) {
  a->bytes_in_use = 100;
  a->peak_bytes = 200;
  a->has_peak_bytes = true;
  return nullptr;
}
abi::Failure* compile(abi::ClientCompile* a) {
  auto* client = as<Client>(a->client);
  if (fails(client, "compile")) return failure(13, "this compiler is out of order");
  if (client->slow) std::this_thread::sleep_for(std::chrono::milliseconds(250));
  ++state.compiled;
  const std::string_view text(a->program->code, a->program->code_size);
  const bool donates = text.find("jax.buffer_donor") != std::string_view::npos;
  a->executable = as<abi::LoadedExecutable>(new Loaded{client, donates});
  return nullptr;
}
abi::Failure* serialize(abi::ExecutableSerialize* a) {
  const auto* loaded = reinterpret_cast<const Loaded*>(a->executable);
  if (fails(loaded->client, "store")) return failure(abi::kUnimplemented, "no program leaves");
  auto* bytes = new std::string(loaded->donates ? "donates" : "plain");
  a->bytes = bytes->data();
  a->size = bytes->size();
  a->owner = bytes;
  a->release = [](void* owner) { delete static_cast<std::string*>(owner); };
  return nullptr;
}
abi::Failure* load(abi::Deserialize* a) {
  auto* client = as<Client>(a->client);
  if (fails(client, "load")) return failure(abi::kInvalidArgument, "another version's");
  a->executable = as<abi::LoadedExecutable>(new Loaded{client, std::string_view(a->bytes, a->size) == "donates"});
  return nullptr;
}
abi::Failure* executable_memory_stats(abi::ExecutableMemoryStats* a) {
  a->temporary_bytes = 64;
  return nullptr;
}
abi::Failure* upload(abi::BufferFromHost* a) {
  auto* client = as<Client>(a->client);
  if (fails(client, "upload")) return failure(abi::kResourceExhausted, "out of memory: 12 bytes are too many");
  auto buffer = std::make_unique<Buffer>();
  buffer->client = client;
  buffer->size = bytes_of(*a);
  buffer->bytes = static_cast<const std::byte*>(a->data);
  if (a->semantics == abi::HostSemantics::zero_copy) {
    buffer->use_of_host = std::make_shared<Course>();
    a->done_with_host = as<abi::Event>(new Event(buffer->use_of_host));
  } else {
    buffer->own.assign(buffer->bytes, buffer->bytes + buffer->size);
    buffer->bytes = buffer->own.data();
    a->done_with_host = finished();
  }
  a->buffer = as<abi::Buffer>(buffer.release());
  return nullptr;
}
abi::Failure* inner(abi::LoadedExecutableOf* a) {
  a->executable = as<abi::Executable>(a->loaded);
  return nullptr;
}
abi::Failure* execute(abi::Execute* a) {
  const auto* loaded = as<const Loaded>(a->executable);
  if (fails(loaded->client, "run")) return failure(abi::kResourceExhausted, "out of memory while running");
  abi::Buffer* const* arguments = a->argument_lists[0];
  for (size_t i = 0; i < a->argument_count; ++i)
    if (as<Buffer>(arguments[i])->is_deleted) return failure(abi::kInvalidArgument, "Buffer was deleted or donated");
  const int64_t* kept = a->options->kept_inputs;
  auto* first = as<Buffer>(arguments[0]);
  const bool donated =
      loaded->donates && std::find(kept, kept + a->options->kept_input_count, 0) == kept + a->options->kept_input_count;
  if (donated && std::count(arguments, arguments + a->argument_count, arguments[0]) > 1)
    return failure(abi::kInvalidArgument, "the same buffer donated and used");
  auto result = std::make_unique<Buffer>();
  result->client = first->client;
  result->own.assign(first->bytes, first->bytes + first->size);
  result->bytes = result->own.data();
  result->size = first->size;
  first->is_deleted = donated;
  a->output_lists[0][0] = as<abi::Buffer>(result.release());
  if (a->complete_events) a->complete_events[0] = finished();
  return nullptr;
}
abi::Failure* read_back(abi::BufferToHost* a) {
  const auto* buffer = as<const Buffer>(a->source);
  if (fails(buffer->client, "read")) return failure(13, "the device fell over");
  if (buffer->is_deleted) return failure(abi::kInvalidArgument, "Buffer was deleted or donated");
  std::memcpy(a->to, buffer->bytes, std::min(a->size, buffer->size));
  a->done = finished();
  return nullptr;
}
abi::Failure* buffer_destroy(abi::BufferOnly* a) {
  delete as<Buffer>(a->buffer);
  return nullptr;
}
abi::Failure* buffer_is_deleted(abi::BufferIsDeleted* a) {
  a->is_deleted = as<const Buffer>(a->buffer)->is_deleted;
  return nullptr;
}
abi::Failure* loaded_destroy(abi::LoadedOnly* a) {
  delete as<Loaded>(a->executable);
  return nullptr;
}
abi::Failure* client_destroy(abi::ClientOnly* a) {
  delete as<Client>(a->client);
  return nullptr;
}

struct Table {
  abi::Api head;
  void* functions[120];
};

template <class Call>
void set(Table& table, abi::Function function, Call* call) {
  table.functions[static_cast<size_t>(function)] = as<void>(call);
}

// As set(), of what fails when its turn has come.
template <auto call>
struct InTurn;
template <class Arguments, abi::Failure* (*call)(Arguments*)>
struct InTurn<call> {
  static abi::Failure* run(Arguments* arguments) {
    if (state.calls_left >= 0 && state.calls_left-- == 0) {
      state.has_failed = true;
      return failure(abi::kResourceExhausted, "out of memory in its turn");
    }
    return call(arguments);
  }
};
template <auto call>
void set_failing(Table& table, abi::Function function) {
  set(table, function, &InTurn<call>::run);
}

}  // namespace

#ifndef FAKE_NOTHING
extern "C" __attribute__((visibility("default"))) transmuter::testing::FakePjrt* fake_pjrt() { return &state; }

extern "C" __attribute__((visibility("default"))) const abi::Api* GetPjrtApi() {
  using abi::Function;
  static const Table kTable = [] {
    Table table{};
    table.head.struct_size = sizeof table;
    table.head.version.struct_size = sizeof table.head.version;
    table.head.version.minor = FAKE_MINOR;
    set(table, Function::error_destroy, error_destroy);
    set(table, Function::error_message, error_message);
    set(table, Function::error_code, error_code);
    set(table, Function::plugin_initialize, nothing);
    set(table, Function::event_destroy, event_destroy);
    set(table, Function::event_is_ready, event_is_ready);
    set_failing<event_await>(table, Function::event_await);
    set_failing<event_on_ready>(table, Function::event_on_ready);
    set_failing<client_create>(table, Function::client_create);
    set(table, Function::client_destroy, client_destroy);
    set_failing<client_text>(table, Function::client_platform_name);
    set_failing<client_text>(table, Function::client_platform_version);
    set_failing<client_devices>(table, Function::client_addressable_devices);
    set_failing<device_description>(table, Function::device_description);
    set_failing<nothing>(table, Function::description_id);
    set_failing<description_kind>(table, Function::description_kind);
    set_failing<memory_stats>(table, Function::device_memory_stats);
    set_failing<compile>(table, Function::client_compile);
    set_failing<upload>(table, Function::client_buffer_from_host);
    set_failing<inner>(table, Function::loaded_executable);
    set_failing<execute>(table, Function::loaded_execute);
    set(table, Function::loaded_destroy, loaded_destroy);
    set(table, Function::executable_destroy, nothing);
    set_failing<serialize>(table, Function::executable_serialize);
    set_failing<load>(table, Function::deserialize_and_load);
    set_failing<executable_memory_stats>(table, Function::executable_memory_stats);
    set_failing<read_back>(table, Function::buffer_to_host);
    set_failing<buffer_is_deleted>(table, Function::buffer_is_deleted);
    set(table, Function::buffer_destroy, buffer_destroy);
    return table;
  }();
  return &kTable.head;
}
#endif
