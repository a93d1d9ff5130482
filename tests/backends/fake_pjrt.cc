// A PJRT plugin that computes nothing: what it is told to it fails at. Built three times: as it is, as one that is too
// old (FAKE_MINOR), and as a library that is no plugin (FAKE_NOTHING).
//
// Client options: fail=client|compile|upload|run|read, count=N devices. A program gives its first argument back.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/pjrt/abi.h"

#ifndef FAKE_MINOR
#define FAKE_MINOR 100
#endif

namespace {

namespace abi = transmuter::pjrt::abi;

struct Failure {
  int code;
  std::string message;
};
struct Client {
  std::string fails;
  std::vector<int> devices;
  std::vector<abi::Device*> device_pointers;
};
struct Buffer {
  Client* client;
  std::vector<std::byte> bytes;
};
struct Loaded {
  Client* client;
};

abi::Failure* failure(int code, const std::string& message) {
  return reinterpret_cast<abi::Failure*>(new Failure{code, message});
}

bool fails(const Client* client, const char* at) { return client->fails == at; }

size_t bytes_of(const abi::BufferFromHost& from) {
  static const std::map<abi::ElementType, size_t> kSizes = {
      {abi::ElementType::f32, 4}, {abi::ElementType::s64, 8}, {abi::ElementType::u8, 1}};
  size_t bytes = kSizes.at(from.type);
  for (size_t i = 0; i < from.rank; ++i) bytes *= static_cast<size_t>(from.dims[i]);
  return bytes;
}

void error_destroy(abi::ErrorDestroy* a) { delete reinterpret_cast<Failure*>(a->error); }
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

abi::Failure* client_create(abi::ClientCreate* a) {
  auto client = std::make_unique<Client>();
  size_t count = 2;
  for (size_t i = 0; i < a->option_count; ++i) {
    const abi::NamedValue& option = a->options[i];
    const std::string name(option.name, option.name_size);
    if (name == "fail") {
      client->fails.assign(option.string, option.value_size);
    } else if (name == "count") {
      count = static_cast<size_t>(option.integer);
    } else {
      return failure(abi::kInvalidArgument, "unknown option " + name);
    }
  }
  if (fails(client.get(), "client")) return failure(13, "no device answers\nat all");
  client->devices.resize(count);
  for (int& device : client->devices) client->device_pointers.push_back(reinterpret_cast<abi::Device*>(&device));
  a->client = reinterpret_cast<abi::Client*>(client.release());
  return nullptr;
}
abi::Failure* client_text(abi::ClientText* a) {
  a->text = "fake";
  a->text_size = 4;
  return nullptr;
}
abi::Failure* client_devices(abi::ClientDevices* a) {
  const auto* client = reinterpret_cast<const Client*>(a->client);
  a->devices = client->device_pointers.data();
  a->count = client->device_pointers.size();
  return nullptr;
}
abi::Failure* device_description(abi::DeviceDescriptionOf* a) {
  a->description = reinterpret_cast<abi::DeviceDescription*>(a->device);
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
  auto* client = reinterpret_cast<Client*>(a->client);
  if (fails(client, "compile")) return failure(13, "this compiler is out of order");
  a->executable = reinterpret_cast<abi::LoadedExecutable*>(new Loaded{client});
  return nullptr;
}
abi::Failure* upload(abi::BufferFromHost* a) {
  auto* client = reinterpret_cast<Client*>(a->client);
  if (fails(client, "upload")) return failure(abi::kResourceExhausted, "out of memory: 12 bytes are too many");
  auto* buffer = new Buffer{client, std::vector<std::byte>(bytes_of(*a))};
  std::memcpy(buffer->bytes.data(), a->data, buffer->bytes.size());
  a->buffer = reinterpret_cast<abi::Buffer*>(buffer);
  return nullptr;
}
abi::Failure* inner(abi::LoadedExecutableOf* a) {
  a->executable = reinterpret_cast<abi::Executable*>(a->loaded);
  return nullptr;
}
abi::Failure* execute(abi::Execute* a) {
  const auto* loaded = reinterpret_cast<const Loaded*>(a->executable);
  if (fails(loaded->client, "run")) return failure(abi::kResourceExhausted, "out of memory while running");
  a->output_lists[0][0] =
      reinterpret_cast<abi::Buffer*>(new Buffer(*reinterpret_cast<const Buffer*>(a->argument_lists[0][0])));
  return nullptr;
}
abi::Failure* read_back(abi::BufferToHost* a) {
  const auto* buffer = reinterpret_cast<const Buffer*>(a->source);
  if (fails(buffer->client, "read")) return failure(13, "the device fell over");
  std::memcpy(a->to, buffer->bytes.data(), std::min(a->size, buffer->bytes.size()));
  return nullptr;
}
abi::Failure* buffer_destroy(abi::BufferOnly* a) {
  delete reinterpret_cast<Buffer*>(a->buffer);
  return nullptr;
}
abi::Failure* loaded_destroy(abi::LoadedOnly* a) {
  delete reinterpret_cast<Loaded*>(a->executable);
  return nullptr;
}
abi::Failure* client_destroy(abi::ClientOnly* a) {
  delete reinterpret_cast<Client*>(a->client);
  return nullptr;
}

struct Table {
  abi::Api head;
  void* functions[120];
};

template <class Call>
void set(Table& table, abi::Function function, Call* call) {
  table.functions[static_cast<size_t>(function)] = reinterpret_cast<void*>(call);
}

}  // namespace

#ifndef FAKE_NOTHING
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
    set(table, Function::client_create, client_create);
    set(table, Function::client_destroy, client_destroy);
    set(table, Function::client_platform_name, client_text);
    set(table, Function::client_platform_version, client_text);
    set(table, Function::client_addressable_devices, client_devices);
    set(table, Function::device_description, device_description);
    set(table, Function::description_id, nothing);
    set(table, Function::description_kind, description_kind);
    set(table, Function::device_memory_stats, memory_stats);
    set(table, Function::client_compile, compile);
    set(table, Function::client_buffer_from_host, upload);
    set(table, Function::loaded_executable, inner);
    set(table, Function::loaded_execute, execute);
    set(table, Function::loaded_destroy, loaded_destroy);
    set(table, Function::executable_destroy, nothing);
    set(table, Function::buffer_to_host, read_back);
    set(table, Function::buffer_destroy, buffer_destroy);
    return table;
  }();
  return &kTable.head;
}
#endif
