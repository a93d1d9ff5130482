// What is written in a picture? PP-OCR finds the lines of text, reads each, and the lines are drawn.
//
//   read_text DETECTION.onnx RECOGNITION.onnx PICTURE OUT.png
//
// For text that runs from left to right, about level. scripts/fetch_models.py build/models --only PP-OCRv6 brings the
// models and a picture.
#include <cstdio>
#include <sstream>

#include "drawing.h"

namespace {

namespace tm = transmuter;

constexpr int64_t kShortSide = 736;  // of what the detector sees
constexpr float kText = 0.3f;        // a pixel's probability from which on it belongs to a line
constexpr double kSure = 0.5;        // a line's, on average
constexpr double kGrow = 1.6;        // the detector is taught lines that are smaller by area / (this * perimeter)
constexpr int64_t kLine = 48;        // pixels; how tall the reader wants a line
constexpr int64_t kShortest = 320;   // how long at least

// Connected pixels of text, as boxes with their mean probability.
std::vector<Box> lines_in(const float* probability, int64_t height, int64_t width) {
  std::vector<Box> boxes;
  std::vector<bool> seen(static_cast<size_t>(height * width));
  for (int64_t start = 0; start < height * width; ++start) {
    if (seen[static_cast<size_t>(start)] || probability[start] <= kText) continue;
    Box box{1e9, 1e9, 0, 0};
    double sum = 0, count = 0;
    std::vector<int64_t> open{start};
    seen[static_cast<size_t>(start)] = true;
    while (!open.empty()) {
      const int64_t at = open.back(), y = at / width, x = at % width;
      open.pop_back();
      sum += probability[at], ++count;
      box = {std::min(box.left, static_cast<double>(x)), std::min(box.top, static_cast<double>(y)),
             std::max(box.right, static_cast<double>(x + 1)), std::max(box.bottom, static_cast<double>(y + 1))};
      const auto visit = [&](int64_t to, bool inside) {
        if (!inside || seen[static_cast<size_t>(to)] || probability[to] <= kText) return;
        seen[static_cast<size_t>(to)] = true;
        open.push_back(to);
      };
      visit(at - 1, x > 0), visit(at + 1, x + 1 < width), visit(at - width, y > 0), visit(at + width, y + 1 < height);
    }
    const double wide = box.right - box.left, tall = box.bottom - box.top;
    if (sum / count < kSure || std::min(wide, tall) < 3) continue;
    const double grow = wide * tall * kGrow / (2 * (wide + tall));
    boxes.push_back({std::max(0.0, box.left - grow), std::max(0.0, box.top - grow),
                     std::min(static_cast<double>(width), box.right + grow),
                     std::min(static_cast<double>(height), box.bottom + grow)});
  }
  return boxes;
}

// From top to bottom; what stands on one level from left to right.
std::vector<Box> find_lines(const tm::CompiledModel& run, const tm::Tensor& picture) {
  const double enlarge =
      std::max(1.0, static_cast<double>(kShortSide) / static_cast<double>(std::min(picture.dim(0), picture.dim(1))));
  const auto whole = [&](int64_t size) {
    return std::max<int64_t>(32, std::lround(static_cast<double>(size) * enlarge / 32) * 32);
  };
  const int64_t height = whole(picture.dim(0)), width = whole(picture.dim(1));
  const auto outputs =
      run({{run.inputs().front().name, network_input(picture, height, width, 1 / 127.5f, -1, /*blue_first=*/true)}});
  std::vector<Box> lines = lines_in(outputs.begin()->second.tensor.data<float>(), height, width);
  const double scale_y = static_cast<double>(picture.dim(0)) / static_cast<double>(height),
               scale_x = static_cast<double>(picture.dim(1)) / static_cast<double>(width);
  for (Box& box : lines) box = {box.left * scale_x, box.top * scale_y, box.right * scale_x, box.bottom * scale_y};
  const auto before = [](const Box& a, const Box& b) { return a.top < b.top; };
  std::sort(lines.begin(), lines.end(), before);
  for (size_t first = 0, i = 0; i <= lines.size(); ++i) {
    if (i < lines.size() && lines[i].top < (lines[first].top + lines[first].bottom) / 2) continue;
    std::sort(lines.begin() + static_cast<std::ptrdiff_t>(first), lines.begin() + static_cast<std::ptrdiff_t>(i),
              [](const Box& a, const Box& b) { return a.left < b.left; });
    first = i;
  }
  return lines;
}

// The reader gives for each step along the line how likely each character is; 0 is none, and the same one twice without
// a none between is one.
std::string read_line(const tm::CompiledModel& run, const tm::Tensor& picture, const Box& box,
                      const std::vector<std::string>& characters) {
  const tm::Tensor line = cut_out(picture, box);
  const auto wanted =
      static_cast<int64_t>(std::ceil(static_cast<double>(kLine * line.dim(1)) / static_cast<double>(line.dim(0))));
  const tm::Tensor shown = network_input(line, kLine, wanted, 1 / 127.5f, -1, /*blue_first=*/true);
  // Grey behind a short line.
  const int64_t width = std::max(wanted, kShortest);
  std::vector<float> values(static_cast<size_t>(3 * kLine * width));
  for (int64_t row = 0; row < 3 * kLine; ++row)
    std::copy_n(shown.data<float>() + row * wanted, wanted, values.data() + row * width);
  const auto outputs = run({{run.inputs().front().name, tm::Tensor(values, {1, 3, kLine, width})}});

  const tm::Tensor& scores = outputs.begin()->second.tensor;  // [1, steps, characters]
  std::string text;
  size_t last = 0;
  for (int64_t step = 0; step < scores.dim(1); ++step) {
    const float* row = scores.data<float>() + step * scores.dim(2);
    const auto best = static_cast<size_t>(std::max_element(row, row + scores.dim(2)) - row);
    if (best != 0 && best != last) text += characters.at(best - 1);
    last = best;
  }
  return text;
}

// The model's file says what it can write, a character a line; a blank comes last.
std::vector<std::string> characters_of(const tm::Graph& reader) {
  std::istringstream lines(reader.metadata().at("character"));
  std::vector<std::string> characters;
  for (std::string line; std::getline(lines, line);) characters.push_back(line);
  characters.emplace_back(" ");
  return characters;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: read_text DETECTION.onnx RECOGNITION.onnx PICTURE OUT.png\n");
    return 2;
  }
  namespace tm = transmuter;  // here, where <ctime>'s struct would be meant as well
  try {
    const tm::Tensor picture = tm::read_image(argv[3]);
    const std::vector<Box> lines = find_lines(tm::Model::load(argv[1]).compile(), picture);
    const tm::Graph reader = tm::Graph::load(argv[2]);
    const auto characters = characters_of(reader);
    const auto run = tm::Model::from_graph(reader).compile();
    for (const Box& line : lines) std::printf("%s\n", read_line(run, picture, line, characters).c_str());
    write_with_boxes(argv[4], picture, lines);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
