// What a program can see of the library while it runs a model: watch MODEL.onnx INPUT=SIZE[xSIZE ...] ... runs the
// model twice on zeros and prints which segments ran for how long, what was made anew, and the metrics of a server.
#include <transmuter/transmuter.h>

#include <cstdio>
#include <exception>
#include <mutex>
#include <sstream>

namespace {

namespace tm = transmuter;
namespace telemetry = transmuter::telemetry;

tm::Shape shape_of(const std::string& text) {
  tm::Shape shape;
  std::istringstream sizes(text);
  for (std::string size; std::getline(sizes, size, 'x');) shape.push_back(std::stoll(size));
  return shape;
}

// May be called by several threads at once; what it throws would be counted, and hurt nobody.
class Watch {
 public:
  void operator()(const telemetry::Event& event) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const double ms = std::chrono::duration<double, std::milli>(event.duration).count();
    const std::string inputs(event.text("inputs"));
    switch (event.kind) {
      case telemetry::Kind::segment:
        std::printf("segment %d ran for %.3f ms on %s\n", static_cast<int>(event.integer("segment")), ms,
                    inputs.c_str());
        break;
      case telemetry::Kind::trace:
        std::printf("a trace was made in %.3f ms for %s\n", ms, inputs.c_str());
        break;
      case telemetry::Kind::graph_break:
        std::printf("a break behind segment %d: %s\n", static_cast<int>(event.integer("segment")),
                    std::string(event.text("reason")).c_str());
        break;
      default:
        break;
    }
  }

 private:
  std::mutex mutex_;
};

int watch(int argc, char** argv) {
  Watch watch;
  const telemetry::Subscription subscription = telemetry::subscribe(std::ref(watch));
  const tm::Model model = tm::Model::load(argv[1]);
  tm::TensorMap inputs;
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t sign = argument.find('=');
    if (sign == std::string::npos) throw tm::Error(tm::ErrorCode::invalid_input, argument + " is not INPUT=SIZE");
    const std::string name = argument.substr(0, sign);
    for (const tm::ValueSpec& spec : model.inputs())
      if (spec.name == name) inputs[name] = tm::Tensor(spec.dtype, shape_of(argument.substr(sign + 1)));
  }
  const tm::CompiledModel run = model.compile();
  for (int i = 0; i < 2; ++i) run(inputs);
  std::printf("%s", telemetry::metrics_text().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: watch MODEL.onnx INPUT=SIZE[xSIZE ...] ...\n");
    return 2;
  }
  try {
    return watch(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "watch: %s\n", error.what());
    return 1;
  }
}
