#include <filesystem>
#include <new>

#include "base/mapped_file.h"
#include "base/strings.h"
#include "onnx/build.h"
#include "onnx/functions.h"
#include "onnx/graph.h"
#include "onnx/proto.h"
#include "onnx/wire.h"
#include "transmuter/error.h"

namespace transmuter::onnx {
namespace {

constexpr int64_t kNewestIrVersion = 14;
constexpr int64_t kNewestOpset = 28;
// Protobuf lengths have 31 bits; a few writers use the 32nd.
constexpr size_t kMaxFileBytes = (size_t{1} << 32) - 1;

void check_standard(const Opsets& opsets, const std::string& what) {
  const auto standard = opsets.find("");
  if (standard != opsets.end() && standard->second > kNewestOpset)
    throw Error(ErrorCode::unsupported, str(what, " uses version ", standard->second,
                                            " of the standard operators; the newest known is ", kNewestOpset));
}

void check_versions(ModelProto& proto) {
  if (!proto.graph) throw Error(ErrorCode::invalid_model, "there is no graph: this is not an ONNX model");
  if (proto.ir_version < 1)
    throw Error(ErrorCode::invalid_model, str("the IR version is ", proto.ir_version, "; it must be at least 1"));
  if (proto.ir_version > kNewestIrVersion)
    throw Error(ErrorCode::unsupported,
                str("the IR version is ", proto.ir_version, ", newer than ", kNewestIrVersion, ", the newest known"));
  // Operator sets came with IR version 3; the operators before are those of version 1.
  if (proto.ir_version < 3) proto.opsets.emplace("", 1);
  check_standard(proto.opsets, "the model");
  for (const FunctionProto& function : proto.functions)
    check_standard(function.opsets, str("the function \"", function.name, "\""));
}

Model parse(std::string_view bytes, const Source& source) {
  if (bytes.empty()) throw Error(ErrorCode::invalid_model, "the file is empty");
  if (bytes.rfind("version https://git-lfs", 0) == 0)
    throw Error(ErrorCode::invalid_model, "the file is a Git LFS pointer: fetch the model itself first");
  if (bytes.size() > kMaxFileBytes)
    throw Error(ErrorCode::invalid_model, str("a protobuf message cannot have ", bytes.size(), " bytes"));
  ModelProto proto;
  try {
    proto = parse_model_proto(bytes, source);
  } catch (const protozero::exception&) {
    throw Error(ErrorCode::invalid_model, "the bytes end early or are not a protobuf message");
  }
  check_versions(proto);
  inline_functions(proto);
  Model model;
  model.ir_version = proto.ir_version;
  model.producer = std::move(proto.producer);
  model.producer_version = std::move(proto.producer_version);
  model.opsets = std::move(proto.opsets);
  model.metadata = std::move(proto.metadata);
  model.graph = build_graph(std::move(*proto.graph));
  return model;
}

template <class Body>
Model guarded(const std::string& where, Body body) {
  try {
    return body();
  } catch (Error& error) {
    error.in(where);
    throw;
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory, "there is not enough memory to read the model").in(where);
  }
}

}  // namespace

Model read_model(const std::string& path, const ReadOptions& options) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path, options.map);  // names the file itself
  return guarded(str("file ", path), [&] {
    const std::filesystem::path parent = std::filesystem::path(path).parent_path();
    const std::string folder = parent.empty() ? std::string(".") : parent.string();
    Model model = parse(file->view(), {file, std::make_shared<ExternalData>(folder, options.map)});
    model.path = path;
    if (options.map) release_pages(file->bytes(), file->size());  // the nodes are plain data now
    return model;
  });
}

Model parse_model_bytes(std::string_view bytes, const Source& source, const std::string& path) {
  return guarded(path.empty() ? "a model in memory" : str("file ", path), [&] {
    Model model = parse(bytes, source);
    model.path = path;
    return model;
  });
}

Model parse_model(const std::byte* bytes, size_t size, std::shared_ptr<const void> owner, const std::string& folder) {
  return parse_model_bytes({reinterpret_cast<const char*>(bytes), size},
                           {std::move(owner), std::make_shared<ExternalData>(folder, true)}, "");
}

}  // namespace transmuter::onnx
