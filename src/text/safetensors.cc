#include "text/safetensors.h"

#include <cstring>

#include "base/strings.h"
#include "text/folder.h"
#include "transmuter/error.h"

namespace transmuter {

namespace {

DType dtype_named(const std::string& name) {
  if (name == "F64") return DType::f64;
  if (name == "F32") return DType::f32;
  if (name == "F16") return DType::f16;
  if (name == "BF16") return DType::bf16;
  return DType::invalid;
}

}  // namespace

std::map<std::string, Tensor> read_safetensors(const std::filesystem::path& path) {
  const std::optional<std::string> file = read_text_file(path);
  if (!file) throw Error(ErrorCode::not_found, str("there is no file ", path.string()));
  const auto fail = [&](const std::string& why) -> Error {
    return Error(ErrorCode::invalid_model, str(path.string(), " is not a safetensors file: ", why));
  };
  uint64_t header_size = 0;
  if (file->size() < sizeof header_size) throw fail("it is too short");
  std::memcpy(&header_size, file->data(), sizeof header_size);
  if (header_size > file->size() - sizeof header_size) throw fail("its header is longer than the file");
  const Json header = Json::parse(file->substr(sizeof header_size, header_size), nullptr, false);
  if (!header.is_object()) throw fail("its header is no JSON object");
  const std::string_view bytes = std::string_view(*file).substr(sizeof header_size + header_size);
  std::map<std::string, Tensor> out;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    try {
      const DType dtype = dtype_named(entry.at("dtype").get<std::string>());
      const auto shape = entry.at("shape").get<std::vector<int64_t>>();
      const auto place = entry.at("data_offsets").get<std::vector<uint64_t>>();
      if (dtype == DType::invalid) throw fail(str("the type of ", name, " is not F64, F32, F16 or BF16"));
      uint64_t elements = 1;
      for (const int64_t extent : shape) {
        if (extent < 0 || (extent > 0 && elements > bytes.size() / static_cast<uint64_t>(extent)))
          throw fail(str("the shape of ", name, " is larger than the file"));
        elements *= static_cast<uint64_t>(extent);
      }
      const uint64_t size = byte_size(dtype, static_cast<int64_t>(elements));
      if (place.size() != 2 || place[0] > bytes.size() || place[1] > bytes.size() || place[1] < place[0] ||
          place[1] - place[0] != size)
        throw fail(str("the bytes of ", name, " lie outside of it"));
      Tensor tensor(dtype, Shape(shape.begin(), shape.end()));
      std::memcpy(tensor.mutable_bytes(), bytes.data() + place[0], size);
      out.emplace(name, tensor.cast(DType::f32));
    } catch (const Json::exception&) {
      throw fail(str("the entry of ", name, " has no dtype, shape and data_offsets"));
    }
  }
  return out;
}

}  // namespace transmuter
