// Where are the faces in a picture? Runs CenterFace and draws what it finds.
//
//   find_faces MODEL.onnx PICTURE OUT.png
//
// scripts/fetch_models.py build/models --only centerface brings the model and a picture.
#include <cstdio>

#include "drawing.h"

namespace {

namespace tm = transmuter;

constexpr float kSure = 0.5f;
constexpr double kSame = 0.3;  // share of two boxes' area above which they are one face
constexpr int64_t kCell = 4;   // pixels of the picture for one of the network's results

struct Face {
  Box box;
  float score;
};

// The file declares batches of ten pictures of 32 x 32; its nodes work at any size.
tm::Model load_for_any_size(const char* path) {
  const tm::Graph graph = tm::Graph::load(path);
  tm::GraphEdit edit = graph.edit();
  for (const auto& specs : {graph.inputs(), graph.outputs()}) {
    for (tm::ValueSpec spec : specs) {
      if (spec.optional) continue;  // a weight
      for (const size_t axis : {0, 2, 3}) spec.shape.at(axis) = {};
      edit.set_type(spec);
    }
  }
  return tm::Model::from_graph(edit.commit());
}

double shared(const Box& a, const Box& b) {
  const auto area = [](const Box& x) { return std::max(0.0, x.right - x.left) * std::max(0.0, x.bottom - x.top); };
  const double both = area(
      {std::max(a.left, b.left), std::max(a.top, b.top), std::min(a.right, b.right), std::min(a.bottom, b.bottom)});
  return both / (area(a) + area(b) - both);
}

// The best of each heap of boxes.
std::vector<Face> apart(std::vector<Face> faces) {
  std::sort(faces.begin(), faces.end(), [](const Face& a, const Face& b) { return a.score > b.score; });
  std::vector<Face> kept;
  for (const Face& face : faces) {
    const auto same = [&](const Face& other) { return shared(face.box, other.box) > kSame; };
    if (std::none_of(kept.begin(), kept.end(), same)) kept.push_back(face);
  }
  return kept;
}

std::vector<Face> find_faces(const tm::CompiledModel& run, const tm::Tensor& picture) {
  const auto whole = [](int64_t size) { return (size + 31) / 32 * 32; };
  const int64_t height = whole(picture.dim(0)), width = whole(picture.dim(1));
  const auto outputs =
      run({{run.inputs().front().name, network_input(picture, height, width, 1, 0, /*blue_first=*/false)}});
  const auto plane = [&](size_t output, int64_t channel) {
    return outputs.at(run.outputs().at(output).name).tensor.data<float>() +
           channel * (height / kCell) * (width / kCell);
  };
  const float *score = plane(0, 0), *tall = plane(1, 0), *wide = plane(1, 1), *down = plane(2, 0), *along = plane(2, 1);
  const double scale_y = static_cast<double>(picture.dim(0)) / static_cast<double>(height),
               scale_x = static_cast<double>(picture.dim(1)) / static_cast<double>(width);
  std::vector<Face> faces;
  for (int64_t y = 0; y < height / kCell; ++y) {
    for (int64_t x = 0; x < width / kCell; ++x) {
      const int64_t i = y * (width / kCell) + x;
      if (score[i] <= kSure) continue;
      const double middle_x = (static_cast<double>(x) + along[i] + 0.5) * kCell, half_x = std::exp(wide[i]) * kCell / 2;
      const double middle_y = (static_cast<double>(y) + down[i] + 0.5) * kCell, half_y = std::exp(tall[i]) * kCell / 2;
      faces.push_back({{(middle_x - half_x) * scale_x, (middle_y - half_y) * scale_y, (middle_x + half_x) * scale_x,
                        (middle_y + half_y) * scale_y},
                       score[i]});
    }
  }
  return apart(std::move(faces));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: find_faces MODEL.onnx PICTURE OUT.png\n");
    return 2;
  }
  namespace tm = transmuter;  // here, where <ctime>'s struct would be meant as well
  try {
    const tm::Tensor picture = tm::read_image(argv[2]);
    const std::vector<Face> faces = find_faces(load_for_any_size(argv[1]).compile(), picture);
    std::vector<Box> boxes;
    for (const auto& [box, score] : faces) {
      std::printf("face at %.0f, %.0f to %.0f, %.0f: %.1f %%\n", box.left, box.top, box.right, box.bottom,
                  100.0 * score);
      boxes.push_back(box);
    }
    if (faces.empty()) std::printf("no face\n");
    write_with_boxes(argv[3], picture, boxes);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
