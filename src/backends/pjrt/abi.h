// The part of PJRT's C interface that we use: the plugin's table of functions, and the blocks of arguments they take
// (https://github.com/openxla/xla, xla/pjrt/c/pjrt_c_api.h, interface 0.x; fields, order and numbers are that file's).
//
// Compatibility: the table and every block only grow at their ends. A plugin refuses a block that is shorter than its
// own and takes a longer one, so blocks are made with zeroed room behind (Block). Functions of the table are looked up
// by position, and only where the table says that it is so long.
#pragma once

#include <cstddef>
#include <cstdint>

namespace transmuter::pjrt::abi {

// What the plugin owns; only pointers to them are known.
struct Failure;
struct Event;
struct Client;
struct Device;
struct DeviceDescription;
struct Memory;
struct Executable;
struct LoadedExecutable;
struct Buffer;

struct Api {
  size_t struct_size;
  void* extensions;
  struct {
    size_t struct_size;
    void* extensions;
    int major;
    int minor;
  } version;
  // then the functions, a pointer each
};

// Positions in the table.
enum class Function : size_t {
  error_destroy = 0,
  error_message = 1,
  error_code = 2,
  plugin_initialize = 3,
  event_destroy = 5,
  event_is_ready = 6,
  event_await = 8,
  event_on_ready = 9,
  client_create = 10,
  client_destroy = 11,
  client_platform_name = 12,
  client_platform_version = 14,
  client_addressable_devices = 16,
  client_compile = 20,
  client_buffer_from_host = 22,
  description_id = 23,
  description_kind = 26,
  device_description = 29,
  device_memory_stats = 34,
  executable_destroy = 40,
  executable_serialize = 49,
  loaded_destroy = 50,
  loaded_executable = 51,
  loaded_execute = 55,
  deserialize_and_load = 56,
  buffer_destroy = 58,
  buffer_is_deleted = 68,
  buffer_to_host = 70,
  buffer_ready_event = 72,
  executable_memory_stats = 96,
};

// What every block begins with.
struct Header {
  size_t struct_size = 0;
  void* extensions = nullptr;
};

// A block as it is handed over: zero but for what is set, with room for what newer plugins have behind.
template <class T>
struct Block : T {
  std::byte room[128]{};
  Block() : T{} { this->struct_size = sizeof(Block); }
};

struct ErrorDestroy : Header {
  Failure* error;
};
struct ErrorMessage : Header {
  const Failure* error;
  const char* message;  // out
  size_t message_size;  // out
};
struct ErrorCode : Header {
  const Failure* error;
  int code;  // out
};
// Of absl::StatusCode.
inline constexpr int kInvalidArgument = 3;
inline constexpr int kResourceExhausted = 8;
inline constexpr int kUnimplemented = 12;

struct PluginInitialize : Header {};

struct EventOnly : Header {  // destroy, await
  Event* event;
};
struct EventIsReady : Header {
  Event* event;
  bool is_ready;  // out
};
struct EventOnReady : Header {
  Event* event;
  void (*callback)(Failure* error, void* argument);
  void* argument;
};

// An option of a client. They lie in an array, so this block has no room behind.
struct NamedValue : Header {
  enum Type : int { kString, kInteger, kIntegers, kFloat, kBool };
  const char* name;
  size_t name_size;
  Type type;
  union {
    const char* string;
    int64_t integer;
    const int64_t* integers;
    float real;
    bool truth;
  };
  size_t value_size;  // characters of a string, elements of a list, else 1
};

struct ClientCreate : Header {
  const NamedValue* options;
  size_t option_count;
  void* get_callback;
  void* get_argument;
  void* put_callback;
  void* put_argument;
  Client* client;  // out
};
struct ClientOnly : Header {
  Client* client;
};
struct ClientText : Header {  // platform name and version
  Client* client;
  const char* text;  // out
  size_t text_size;  // out
};
struct ClientDevices : Header {
  Client* client;
  Device* const* devices;  // out
  size_t count;            // out
};
struct ProgramText : Header {
  const char* code;
  size_t code_size;
  const char* format;
  size_t format_size;
};
struct ClientCompile : Header {
  Client* client;
  const ProgramText* program;
  const char* options;  // a CompileOptionsProto
  size_t options_size;
  LoadedExecutable* executable;  // out
};

enum class ElementType : int {
  invalid,
  pred,
  s8,
  s16,
  s32,
  s64,
  u8,
  u16,
  u32,
  u64,
  f16,
  f32,
  f64,
  bf16,
  c64,
  c128,
  f8e5m2,
  f8e4m3fn,
  f8e4m3b11fnuz,
  f8e5m2fnuz,
  f8e4m3fnuz,
  f8e8m0 = 28,
};
enum class HostSemantics : int { copied_during_call, kept_until_transferred, zero_copy };

struct BufferFromHost : Header {
  Client* client;
  const void* data;
  ElementType type;
  const int64_t* dims;
  size_t rank;
  const int64_t* byte_strides;  // null: dense
  size_t byte_stride_count;
  HostSemantics semantics;
  Device* device;
  Memory* memory;         // null: the device's own
  void* device_layout;    // null: the device's choice
  Event* done_with_host;  // out
  Buffer* buffer;         // out
};

struct DescriptionId : Header {
  DeviceDescription* description;
  int id;  // out
};
struct DescriptionText : Header {
  DeviceDescription* description;
  const char* text;  // out
  size_t text_size;  // out
};
struct DeviceDescriptionOf : Header {
  Device* device;
  DeviceDescription* description;  // out
};
struct DeviceMemoryStats : Header {
  Device* device;
  int64_t bytes_in_use;  // out, as all that follows
  int64_t peak_bytes;
  bool has_peak_bytes;
  int64_t allocations;
  bool has_allocations;
  int64_t largest_allocation;
  bool has_largest_allocation;
  int64_t bytes_limit;
  bool has_bytes_limit;
  int64_t further[10];
};

struct ExecutableOnly : Header {
  Executable* executable;
};
struct ExecutableSerialize : Header {
  const Executable* executable;
  const char* bytes;             // out
  size_t size;                   // out
  void* owner;                   // out: of the bytes
  void (*release)(void* owner);  // out
};
struct ExecutableMemoryStats : Header {
  Executable* executable;
  int64_t code_bytes;  // out, as all that follows
  int64_t argument_bytes;
  int64_t output_bytes;
  int64_t alias_bytes;
  int64_t temporary_bytes;
  int64_t further[6];
};
struct LoadedOnly : Header {
  LoadedExecutable* executable;
};
struct LoadedExecutableOf : Header {
  LoadedExecutable* loaded;
  Executable* executable;  // out
};
struct Deserialize : Header {
  Client* client;
  const char* bytes;
  size_t size;
  LoadedExecutable* executable;  // out
};

struct ExecuteOptions : Header {
  void* send_callbacks;
  void* receive_callbacks;
  size_t send_count;
  size_t receive_count;
  int launch_id;
  const int64_t* kept_inputs;  // those that may not be donated in this run
  size_t kept_input_count;
  void* context;
};
struct Execute : Header {
  LoadedExecutable* executable;
  ExecuteOptions* options;
  Buffer* const* const* argument_lists;  // by device, by argument
  size_t device_count;
  size_t argument_count;
  Buffer** const* output_lists;  // by device, by output: filled in
  Event** complete_events;       // by device; may be null
  Device* device;                // null: where it was compiled for
};

struct BufferOnly : Header {
  Buffer* buffer;
};
struct BufferIsDeleted : Header {
  Buffer* buffer;
  bool is_deleted;  // out
};
struct TiledLayout : Header {
  const int64_t* minor_to_major;
  size_t rank;
  const int64_t* tile_dims;
  const size_t* tile_dim_sizes;
  size_t tile_count;
};
struct Layout : Header {
  TiledLayout tiled;
  int type;  // 0: tiled
};
struct BufferToHost : Header {
  Buffer* source;
  Layout* layout;  // null: as on the device
  void* to;
  size_t size;
  Event* done;  // out
};

}  // namespace transmuter::pjrt::abi
