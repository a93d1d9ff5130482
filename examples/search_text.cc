// Which paragraphs of some text files answer a question? Compares the meanings that a sentence embedder gives them.
//
//   search_text FOLDER QUESTION FILE…
//
// scripts/fetch_minilm.py build/models/all-MiniLM-L6-v2 brings a folder.
#include <transmuter/transmuter.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr size_t kShown = 3;

// Lines with nothing between them are a paragraph.
void add_paragraphs(const std::string& path, std::vector<std::string>& to) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::string paragraph;
  for (std::string line; std::getline(file, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) {
      if (!paragraph.empty()) to.push_back(std::move(paragraph));
      paragraph.clear();
    } else {
      paragraph += (paragraph.empty() ? "" : " ") + line;
    }
  }
  if (!paragraph.empty()) to.push_back(std::move(paragraph));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: search_text FOLDER QUESTION FILE…\n");
    return 2;
  }
  namespace tm = transmuter;  // here, where <ctime>'s struct would be meant as well
  try {
    std::vector<std::string> paragraphs;
    for (int i = 3; i < argc; ++i) add_paragraphs(argv[i], paragraphs);
    const auto embed = tm::TextEmbedder::load(argv[1]);
    const tm::Tensor texts = embed(paragraphs, {.role = tm::EmbedRole::document, .normalize = true});
    const tm::Tensor question =
        embed(std::vector<std::string>{argv[2]}, {.role = tm::EmbedRole::query, .normalize = true});

    // Of unit length, vectors have their product for the cosine between them.
    std::vector<std::pair<float, size_t>> found;
    const float* asked = question.data<float>();
    for (size_t i = 0; i < paragraphs.size(); ++i) {
      const float* text = texts.data<float>() + static_cast<int64_t>(i) * texts.dim(1);
      found.emplace_back(std::inner_product(asked, asked + texts.dim(1), text, 0.0f), i);
    }
    std::sort(found.begin(), found.end(), std::greater<>());
    for (size_t i = 0; i < std::min(kShown, found.size()); ++i)
      std::printf("%.3f  %.100s\n", static_cast<double>(found[i].first), paragraphs[found[i].second].c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
