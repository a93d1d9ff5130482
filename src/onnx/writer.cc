#include "onnx/writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "base/mapped_file.h"
#include "base/strings.h"
#include "onnx/proto.h"
#include "onnx/wire.h"
#include "transmuter/error.h"

namespace transmuter::onnx {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxMessage = (size_t{1} << 31) - 1;

[[noreturn]] void io_error(const std::string& path) {
  throw Error(ErrorCode::io, str("cannot write ", path, ": ", std::strerror(errno)));
}

void each_sparse(Field& field, const std::function<void(Field&, bool)>& fn) {
  for (Field& part : field.open().fields)
    if (part.number == 1 || part.number == 2) fn(part, false);
}

void each_attribute_tensor(Field& attribute, const std::function<void(Field&, bool)>& fn) {
  for (Field& held : attribute.open().fields) {
    if (held.number == attribute_field::kTensor || held.number == attribute_field::kTensors) fn(held, false);
    if (held.number == attribute_field::kSparse || held.number == attribute_field::kSparses) each_sparse(held, fn);
  }
}

bool is_external(const Message& tensor) { return tensor.integer(tensor_field::kLocation) == 1; }

bool holds_data(const Field& field) {
  switch (field.number) {
    case tensor_field::kFloatData:
    case tensor_field::kInt32Data:
    case tensor_field::kInt64Data:
    case tensor_field::kDoubleData:
    case tensor_field::kUint64Data:
    case tensor_field::kRaw:
    case tensor_field::kExternal:
    case tensor_field::kLocation:
      return true;
    default:
      return false;
  }
}

Field entry(const std::string& key, const std::string& value) {
  return entry_field(tensor_field::kExternal, key, value);
}

// The file of an external tensor's data, as the tensor names it; "" where it names none.
std::string location_of(const Message& tensor) {
  std::string location;
  for (const Field& part : tensor.fields) {
    if (part.number != tensor_field::kExternal) continue;
    auto [key, value] = entry_of(part);
    if (key == "location") location = std::move(value);
  }
  return location;
}

// The tensor's data lies in `location` from now on.
void point_to(Message& tensor, const std::string& location, size_t offset, size_t length) {
  std::erase_if(tensor.fields, holds_data);
  tensor.fields.push_back(entry("location", location));
  tensor.fields.push_back(entry("offset", std::to_string(offset)));
  tensor.fields.push_back(entry("length", std::to_string(length)));
  tensor.fields.push_back(integer_field(tensor_field::kLocation, 1));
}

// The weights that leave the model, in order, each at its offset.
struct Block {
  Tensor tensor;
  size_t offset;
};

std::vector<Block> move_out(Document& document, const std::string& location, size_t least) {
  const Source source = source_of(document);
  std::vector<Block> blocks;
  size_t end = 0;
  each_tensor(document.model, [&](Field& field, bool initializer) {
    const Shown shown(field);
    if (shown->integer(tensor_field::kDType) == number_of_dtype(DType::string)) return;
    if (!is_external(*shown)) {
      // What a tensor takes is at least what its values take.
      const size_t size = field.message ? measure(*field.message) : field.bytes.size();
      if (!initializer || size < least) return;
    }
    const Tensor tensor = as_stored(tensor_of(field, source));
    if (!is_external(*shown) && tensor.nbytes() < least) return;
    // Whole pages for what is worth mapping alone.
    const size_t alignment = tensor.nbytes() >= 65536 ? 4096 : 64;
    const size_t offset = (end + alignment - 1) / alignment * alignment;
    end = offset + tensor.nbytes();
    point_to(field.open(), location, offset, tensor.nbytes());
    blocks.push_back({tensor, offset});
  });
  return blocks;
}

void move_in(Document& document) {
  const Source source = source_of(document);
  each_tensor(document.model, [&](Field& field, bool) {
    const Shown shown(field);
    if (!is_external(*shown)) return;
    const Tensor tensor = tensor_of(field, source);
    std::erase_if(field.open().fields, holds_data);
    auto owner = std::make_shared<const Tensor>(as_stored(tensor));
    const std::string_view bytes(reinterpret_cast<const char*>(owner->bytes()), owner->nbytes());
    field.message->fields.push_back(bytes_field(tensor_field::kRaw, bytes, std::move(owner)));
  });
}

void check_kept(Document& document, const std::string& path) {
  std::string first;
  size_t count = 0;
  each_tensor(document.model, [&](Field& field, bool) {
    const Shown shown(field);
    if (!is_external(*shown)) return;
    ++count;
    if (first.empty()) first = location_of(*shown);
  });
  if (count == 0) return;
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  if (!document.folder.empty() && fs::equivalent(folder.empty() ? "." : folder, document.folder, error)) return;
  throw Error(ErrorCode::invalid_input, str("the data of ", count, " tensors lies in other files (\"", first,
                                            "\") beside the model that was read, "
                                            "where a model saved to ",
                                            path,
                                            " would not find it: save beside it, or save the weights anew "
                                            "(external or embedded)"));
}

void check_size(size_t size) {
  if (size > kMaxMessage)
    throw Error(ErrorCode::invalid_input,
                str("the model would have ", size, " bytes, and a protobuf file holds at most ", kMaxMessage,
                    ": save its weights externally"));
}

void check_target(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw Error(ErrorCode::io, str("cannot write ", path, ": it is not a regular file"));
}

}  // namespace

PendingFile::PendingFile(std::string path) : path_(std::move(path)) {
  static std::atomic<unsigned> counter{0};
  check_target(path_);
  temporary_ = str(path_, ".tmp-", ::getpid(), "-", counter++);
  file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) io_error(path_);
}

PendingFile::~PendingFile() {
  if (file_ >= 0) ::close(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void PendingFile::flush() {
  write_all(file_, buffer_, path_);
  buffer_.clear();
}

void PendingFile::write(std::string_view bytes) {
  constexpr size_t kBuffer = 1 << 16;
  size_ += bytes.size();
  while (buffer_.size() + bytes.size() > kBuffer) {
    const size_t take = kBuffer - buffer_.size();
    buffer_.append(bytes.substr(0, take));
    bytes.remove_prefix(take);
    flush();
  }
  buffer_.append(bytes);
}

void PendingFile::finish() {
  flush();
  const int file = std::exchange(file_, -1);
  if (::close(file) != 0) io_error(path_);
}

void PendingFile::put() {
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) io_error(path_);
  temporary_.clear();
}

void each_tensor(Message& model, const std::function<void(Field&, bool)>& fn) {
  for (const Scope& scope : scopes_of(model)) {
    if (!scope.function) {
      for (Field& field : scope.message->fields) {
        if (field.number == graph_field::kInitializer) fn(field, true);
        if (field.number == graph_field::kSparse) each_sparse(field, fn);
      }
    }
    each_node(scope, [&](Message& node, size_t) {
      for (Field& field : node.fields)
        if (field.number == node_field::kAttribute) each_attribute_tensor(field, fn);
    });
  }
}

std::vector<std::string> external_files(Document document) {
  std::set<std::string> names;
  each_tensor(document.model, [&](Field& field, bool) {
    const Shown shown(field);
    if (!is_external(*shown)) return;
    if (std::string location = location_of(*shown); !location.empty()) names.insert(std::move(location));
  });
  return {names.begin(), names.end()};
}

std::string encode_document(const Document& document) {
  check_size(measure(document.model));
  return encode(document.model);
}

void save_document(const Document& original, const std::string& path, const SaveOptions& options) {
  Document document = original;
  const fs::path name = fs::path(path).filename();
  std::vector<Block> blocks;
  std::string data_path;
  switch (options.weights) {
    case SaveOptions::Weights::keep:
      check_kept(document, path);
      break;
    case SaveOptions::Weights::embed:
      move_in(document);
      break;
    case SaveOptions::Weights::external: {
      const std::string location = options.data_file.empty() ? name.string() + ".data" : options.data_file;
      if (fs::path(location).filename() != location || location == name || location == "." || location == "..")
        throw Error(ErrorCode::invalid_input,
                    str("\"", location,
                        "\" cannot name the file of the weights: it lies beside the model, under a name "
                        "of its own"));
      data_path = (fs::path(path).parent_path() / location).string();
      blocks = move_out(document, location, options.external_from);
      break;
    }
  }
  check_size(measure(document.model));
  std::unique_ptr<PendingFile> data;
  if (!blocks.empty()) {
    data = std::make_unique<PendingFile>(data_path);
    for (const Block& block : blocks) {
      data->write(std::string(block.offset - data->size(), '\0'));
      data->write({reinterpret_cast<const char*>(block.tensor.bytes()), block.tensor.nbytes()});
    }
    data->finish();
  }
  PendingFile model(path);
  write_message(document.model, [&](std::string_view piece) { model.write(piece); });
  model.finish();
  // Nothing but the two renames is left to do.
  if (data) data->put();
  model.put();
}

Model parse_document_model(const Document& original) {
  constexpr size_t kShared = 1024;
  Document document = original;
  auto external = std::make_shared<ExternalData>(document.folder, true);
  each_tensor(document.model, [&](Field& field, bool) {
    if (field.bytes.size() < kShared && !field.message) return;
    Message& tensor = field.open();
    const Field* raw = tensor.find(tensor_field::kRaw);
    if (!raw || raw->bytes.size() < kShared || is_external(tensor)) return;
    const std::string_view bytes = raw->bytes;
    const std::string location = external->add(bytes, raw->owner ? raw->owner : document.owner);
    std::erase_if(tensor.fields, [](const Field& part) { return part.number == tensor_field::kRaw; });
    tensor.fields.push_back(entry("location", location));
    tensor.fields.push_back(entry("length", std::to_string(bytes.size())));
    tensor.fields.push_back(integer_field(tensor_field::kLocation, 1));
  });
  check_size(measure(document.model));
  auto bytes = std::make_shared<const std::string>(encode(document.model));
  return parse_model_bytes(*bytes, {bytes, external}, document.path);
}

}  // namespace transmuter::onnx
