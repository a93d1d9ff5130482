// Tensor data in other files beside the model.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mapped_file.h"

namespace transmuter::onnx {

// The external_data entries of one tensor, as the file has them: location, offset, length (others are ignored).
using ExternalEntries = std::vector<std::pair<std::string, std::string>>;

// The files of one model, each opened once. Only files in the model's folder are read: absolute locations, "..", and
// links that lead out of it are refused, except that a link of a Hugging Face hub cache
// (models--NAME/snapshots/REVISION/FILE) may lead into the same repository's blobs or the cache's shared ones. A file
// with several hard links is refused, as one of its names may lie outside.
class ExternalData {
 public:
  // `folder` = "" refuses every location.
  ExternalData(std::string folder, bool map) : folder_(std::move(folder)), map_(map) {}

  struct Range {
    std::shared_ptr<const void> owner;
    const std::byte* bytes = nullptr;
  };
  // Bytes in memory instead of a file. Returns the location that names them, which no file can have.
  std::string add(std::string_view bytes, std::shared_ptr<const void> owner);
  // The `size` bytes that the entries name. Throws Error.
  Range find(const ExternalEntries& entries, size_t size);

 private:
  std::shared_ptr<const MappedFile> open(const std::string& location);

  std::string folder_;
  bool map_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
  std::map<std::string, std::pair<std::string_view, std::shared_ptr<const void>>> blocks_;
};

}  // namespace transmuter::onnx
