// Documents to files.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "onnx/document.h"
#include "transmuter/graph.h"

namespace transmuter::onnx {

// Writes a file under a temporary name beside it; put() gives it its name. Without that nothing is left of it. Throws
// Error(io).
class PendingFile {
 public:
  explicit PendingFile(std::string path);
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;
  ~PendingFile();
  void write(std::string_view bytes);
  size_t size() const { return size_; }
  void finish();  // everything has reached the file; errors of the disk show here
  void put();     // after finish()

 private:
  void flush();

  std::string path_;
  std::string temporary_;
  int file_ = -1;
  std::string buffer_;
  size_t size_ = 0;
};

// fn(Field& tensor, bool initializer) for every TensorProto, those inside sparse tensors and attributes too.
void each_tensor(Message& model, const std::function<void(Field&, bool)>& fn);

// The names of the files beside the model that hold data of its tensors.
std::vector<std::string> external_files(Document document);

std::string encode_document(const Document& document);
void save_document(const Document& document, const std::string& path, const SaveOptions& options);

}  // namespace transmuter::onnx
