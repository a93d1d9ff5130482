// What kind of file is this? Runs Google's Magika (a small network over a file's first and last bytes) on real files.
//
//   file_type MODEL.onnx CONFIG.json FILE…
//
// scripts/fetch_models.py build/models --only magika brings the model and its config.
#include <transmuter/transmuter.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

struct Config {
  size_t begin_size, end_size, block_size;
  int32_t padding;
  std::vector<std::string> labels;
};

Config read_config(const char* path) {
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  return {json.at("beg_size"), json.at("end_size"), json.at("block_size"), json.at("padding_token"),
          json.at("target_labels_space")};
}

std::string read_block(std::ifstream& file, size_t offset, size_t size) {
  std::string block(size, '\0');
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(block.data(), static_cast<std::streamsize>(size));
  block.resize(static_cast<size_t>(file.gcount()));
  return block;
}

// The file as the model sees it: the first bytes after leading blanks, then the last ones before trailing blanks, each
// padded to its full length.
std::vector<int32_t> features(const std::string& path, const Config& config) {
  constexpr const char* kBlanks = " \t\n\r\v\f";
  std::ifstream file(path, std::ios::binary);
  const size_t size = std::filesystem::file_size(path), block = std::min(size, config.block_size);
  std::string begin = read_block(file, 0, block), end = read_block(file, size - block, block);
  begin.erase(0, std::min(begin.find_first_not_of(kBlanks), begin.size()));
  end.erase(end.find_last_not_of(kBlanks) + 1);
  if (begin.size() > config.begin_size) begin.resize(config.begin_size);
  if (end.size() > config.end_size) end.erase(0, end.size() - config.end_size);

  std::vector<int32_t> numbers(config.begin_size + config.end_size, config.padding);
  const auto number = [](char c) { return static_cast<int32_t>(static_cast<unsigned char>(c)); };
  std::transform(begin.begin(), begin.end(), numbers.begin(), number);
  std::transform(end.begin(), end.end(), numbers.end() - static_cast<std::ptrdiff_t>(end.size()), number);
  return numbers;
}

}  // namespace

int main(int argc, char** argv) {
  namespace tm = transmuter;
  if (argc < 4) {
    std::fprintf(stderr, "usage: file_type MODEL.onnx CONFIG.json FILE…\n");
    return 2;
  }
  try {
    const Config config = read_config(argv[2]);
    std::vector<int32_t> bytes;
    for (int i = 3; i < argc; ++i) {
      const std::vector<int32_t> one = features(argv[i], config);
      bytes.insert(bytes.end(), one.begin(), one.end());
    }
    const auto model = tm::Model::load(argv[1]);
    const auto run = model.compile();
    const int64_t files = argc - 3, width = static_cast<int64_t>(bytes.size()) / files;
    const auto outputs = run({{model.inputs().front().name, tm::Tensor(bytes, {files, width})}});

    const tm::Tensor& scores = outputs.begin()->second;  // f32 [files, labels]
    const auto labels = scores.dim(1);
    for (int64_t f = 0; f < files; ++f) {
      const float* row = scores.data<float>() + f * labels;
      const auto best = std::max_element(row, row + labels) - row;
      std::printf("%-40s %-12s %5.1f %%\n", argv[f + 3], config.labels.at(static_cast<size_t>(best)).c_str(),
                  100.0 * row[best]);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
