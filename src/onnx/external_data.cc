#include "onnx/external_data.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter::onnx {
namespace {

namespace fs = std::filesystem;

uint64_t number(const std::string& key, const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error(ErrorCode::invalid_model, str("external data has the ", key, " '", text, "', which is no byte count"));
  return value;
}

void check_location(const std::string& location) {
  const auto refuse = [&](const char* why) {
    throw Error(ErrorCode::invalid_model, str("the external data location '", location, "' ", why));
  };
  if (location.empty()) throw Error(ErrorCode::invalid_model, "external data names no file");
  if (location.find('\0') != std::string::npos)
    throw Error(ErrorCode::invalid_model, "the external data location holds a NUL byte");
  if (location[0] == '/') refuse("is an absolute path; only files in the model's folder are read");
  size_t start = 0;
  while (start <= location.size()) {
    const size_t end = std::min(location.find('/', start), location.size());
    if (std::string_view(location).substr(start, end - start) == "..")
      refuse("climbs with '..'; only files in the model's folder are read");
    start = end + 1;
  }
}

// The folders that links from `folder` may also lead into: the blobs of a hub cache repository, and those that all
// repositories of the cache share (newer clients), where that store is marked as one.
std::vector<fs::path> hub_blobs(const fs::path& folder) {
  for (fs::path part = folder; part.has_relative_path(); part = part.parent_path()) {
    const fs::path repository = part.parent_path();
    if (part.filename() != "snapshots" || repository.filename().string().rfind("models--", 0) != 0) continue;
    std::vector<fs::path> blobs = {repository / "blobs"};
    const fs::path shared = repository.parent_path() / "blobs";
    std::error_code error;
    if (fs::is_regular_file(shared / ".huggingface-shared-blobs", error)) blobs.push_back(shared);
    return blobs;
  }
  return {};
}

bool lies_in(const fs::path& file, const fs::path& folder) {
  if (folder.empty()) return false;
  auto part = file.begin();
  for (const fs::path& expected : folder) {
    if (expected.empty()) continue;  // a trailing separator
    if (part == file.end() || *part != expected) return false;
    ++part;
  }
  return part != file.end();
}

}  // namespace

std::shared_ptr<const MappedFile> ExternalData::open(const std::string& location) {
  const auto known = files_.find(location);
  if (known != files_.end()) return known->second;
  check_location(location);
  if (folder_.empty())
    throw Error(ErrorCode::invalid_input, str("the weights lie in the file '", location,
                                              "', but the model was read from memory without a folder"));
  std::error_code error;
  const fs::path folder = fs::canonical(folder_, error);
  if (error) throw Error(ErrorCode::not_found, str("there is no folder ", folder_));
  const fs::path path = fs::canonical(folder / location, error);
  if (error)
    throw Error(ErrorCode::not_found, str("the external data file '", location, "' is not in ", folder.string()));
  const std::vector<fs::path> blobs = hub_blobs(folder);
  if (path != folder && !lies_in(path, folder) &&
      std::none_of(blobs.begin(), blobs.end(), [&](const fs::path& store) { return lies_in(path, store); }))
    throw Error(ErrorCode::invalid_model,
                str("the external data location '", location, "' is a link out of the model's folder"));
  // canonical() left no link in the path: one that appears now was put there in between.
  std::shared_ptr<const MappedFile> file = MappedFile::open(path.string(), map_, false);
  if (file->hard_links() > 1)
    throw Error(ErrorCode::invalid_model,
                str("the external data file '", location,
                    "' has several hard links, so it may be a file outside the model's folder; copy it"));
  files_.emplace(location, file);
  return file;
}

std::string ExternalData::add(std::string_view bytes, std::shared_ptr<const void> owner) {
  std::string location = str('\0', blocks_.size());
  blocks_.emplace(location, std::pair(bytes, std::move(owner)));
  return location;
}

ExternalData::Range ExternalData::find(const ExternalEntries& entries, size_t size) {
  std::string location;
  uint64_t offset = 0;
  uint64_t length = size;
  for (const auto& [key, value] : entries) {
    if (key == "location") location = value;
    if (key == "offset") offset = number(key, value);
    if (key == "length") length = number(key, value);
  }
  if (length != size)
    throw Error(ErrorCode::invalid_model,
                str("external data of ", length, " bytes was given for a tensor of ", size, " bytes"));
  if (const auto block = blocks_.find(location); block != blocks_.end())
    return {block->second.second, reinterpret_cast<const std::byte*>(block->second.first.data())};
  const std::shared_ptr<const MappedFile> file = open(location);
  if (offset > file->size() || size > file->size() - offset)
    throw Error(ErrorCode::invalid_model, str("the external data file '", location, "' ends at byte ", file->size(),
                                              "; the tensor needs ", size, " bytes from ", offset));
  return {file, file->bytes() + offset};
}

}  // namespace transmuter::onnx
