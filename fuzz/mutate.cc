#include "mutate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/document.h"
#include "onnx/writer.h"
#include "transmuter/error.h"
#include "transmuter/model.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace transmuter::fuzzing {
namespace {

using onnx::Field;
using onnx::Message;
using onnx::Wire;

// Which fields are messages, and of what kind.
enum class Schema : uint8_t {
  none,
  model,
  opset,
  graph,
  node,
  attribute,
  tensor,
  value,
  type,
  held_type,
  shape,
  other
};

Schema inside(Schema schema, uint32_t number) {
  switch (schema) {
    case Schema::model:
      return number == 7 ? Schema::graph : number == 8 ? Schema::opset : number == 25 ? Schema::other : Schema::none;
    case Schema::graph:
      return number == 1                    ? Schema::node
             : number == 5                  ? Schema::tensor
             : number >= 11 && number <= 13 ? Schema::value
                                            : Schema::none;
    case Schema::node:
      return number == 5 ? Schema::attribute : Schema::none;
    case Schema::attribute:
      return number == 5 || number == 10 ? Schema::tensor : number == 6 || number == 11 ? Schema::graph : Schema::none;
    case Schema::value:
      return number == 2 ? Schema::type : Schema::none;
    case Schema::type:
      return number == 1 || number == 4 || number == 5 || number == 9 ? Schema::held_type : Schema::none;
    case Schema::held_type:
      return number == 2 ? Schema::shape : Schema::none;
    case Schema::shape:
      return number == 1 ? Schema::other : Schema::none;
    default:
      return Schema::none;
  }
}

struct Place {
  Message* message;
  Schema schema;
};

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  void change(Message& model) {
    const size_t times = 1 + below(3);
    for (size_t i = 0; i < times; ++i) {
      std::vector<Place> places;
      collect(model, Schema::model, places, 0);
      // Nodes are what matters most.
      std::vector<Place> nodes;
      for (const Place& place : places)
        if (place.schema == Schema::node) nodes.push_back(place);
      if (below(4) == 0 && change_shape(model, places)) continue;
      if (!nodes.empty() && below(2) == 0)
        change_node(*nodes[below(nodes.size())].message, nodes);
      else
        change_message(places[below(places.size())]);
    }
  }

  // Fields of another graph, those that `graph` has none of by name; a node may be put anywhere.
  void mix(Message& graph, const Message& other) {
    for (const Field& field : other.fields) {
      const bool value = field.number == 5 || field.number == 11;
      if (field.number != 1 && !value) continue;
      if (below(3) == 0) continue;
      graph.fields.insert(graph.fields.begin() + static_cast<ptrdiff_t>(below(graph.fields.size() + 1)), field);
    }
  }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }

  void collect(Message& message, Schema schema, std::vector<Place>& places, int depth) {
    places.push_back({&message, schema});
    if (depth > 12) return;
    for (Field& field : message.fields) {
      if (field.wire != Wire::bytes) continue;
      const Schema next = inside(schema, field.number);
      if (next == Schema::none) continue;
      try {
        collect(field.open(), next, places, depth + 1);
      } catch (const Error&) {
        // Bytes that are no message stay as they are.
      }
    }
  }

  int64_t number() {
    constexpr int64_t kOften[] = {0, 1, 2, 3, -1, -2, 4, 5, 7, 8, 16, 28};
    constexpr int64_t kSeldom[] = {INT64_MIN, INT64_MAX,        INT32_MIN,           INT32_MAX, int64_t{1} << 31,
                                   255,       int64_t{1} << 32, -(int64_t{1} << 40), 65536,     INT64_MIN + 1};
    return below(4) != 0 ? kOften[below(std::size(kOften))] : kSeldom[below(std::size(kSeldom))];
  }

  std::string mutated(std::string_view bytes) {
    std::string out(bytes);
    out.resize(bytes.size() + 16);
    out.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(out.data()), bytes.size(), out.size()));
    return out;
  }

  void change_number(Field& field) {
    const uint32_t id = field.number;
    if (field.wire == Wire::varint) {
      field = onnx::integer_field(id, number());
      return;
    }
    constexpr double kFloats[] = {0., -0., 1., -1., .5, 2., 1e-8, 3.4e38, -3.4e38, HUGE_VAL, -HUGE_VAL, NAN, 1e300};
    const double value = kFloats[below(std::size(kFloats))];
    std::string bytes(field.wire == Wire::fixed32 ? 4 : 8, '\0');
    const auto narrow = static_cast<float>(std::clamp(value, -3.4e38, 3.4e38));
    if (field.wire == Wire::fixed32)
      std::memcpy(bytes.data(), &narrow, 4);
    else
      std::memcpy(bytes.data(), &value, 8);
    const Wire wire = field.wire;
    field = onnx::bytes_field(id, std::move(bytes));
    field.wire = wire;
  }

  // The same elements in another shape; what the input of that name declares goes.
  bool change_shape(Message& model, const std::vector<Place>& places) {
    std::vector<Message*> tensors;
    for (const Place& place : places)
      if (place.schema == Schema::tensor) tensors.push_back(place.message);
    if (tensors.empty()) return false;
    Message& tensor = *tensors[below(tensors.size())];
    std::vector<int64_t> dims;
    for (const Field& field : tensor.fields) {
      if (field.number != onnx::tensor_field::kDims) continue;
      if (field.wire != Wire::varint) return false;
      Message one;
      one.fields.push_back(field);
      dims.push_back(one.integer(onnx::tensor_field::kDims));
    }
    const size_t at = below(dims.size() + 1);
    switch (below(4)) {
      case 0:
        dims.insert(dims.begin() + static_cast<ptrdiff_t>(at), 1);
        break;
      case 1:
        if (dims.size() < 2 || __builtin_mul_overflow(dims[0], dims[1], &dims[0])) return false;
        dims.erase(dims.begin() + 1);
        break;
      case 2:
        if (dims.size() < 2) return false;
        std::swap(dims[below(dims.size())], dims[below(dims.size())]);
        break;
      default:
        std::erase(dims, 1);
        break;
    }
    tensor.remove(onnx::tensor_field::kDims);
    for (const int64_t dim : dims) tensor.fields.push_back(onnx::integer_field(onnx::tensor_field::kDims, dim));
    Field* graph = model.find(onnx::model_field::kGraph);
    if (!graph) return true;
    const std::string_view name = tensor.text(onnx::tensor_field::kName);
    for (Field& field : graph->open().fields) {
      if (field.number != onnx::graph_field::kInput || !field.message) continue;
      if (field.message->text(onnx::value_field::kName) != name) continue;
      Field* type = field.message->find(onnx::value_field::kType);
      Field* held = type && type->message ? type->message->find(1) : nullptr;
      if (held && held->message) held->message->remove(2);
    }
    return true;
  }

  void change_message(const Place& place) {
    std::vector<Field>& fields = place.message->fields;
    if (fields.empty()) {
      fields.push_back(onnx::integer_field(static_cast<uint32_t>(1 + below(8)), number()));
      return;
    }
    const size_t index = below(fields.size());
    Field& field = fields[index];
    switch (below(6)) {
      case 0:
        fields.erase(fields.begin() + static_cast<ptrdiff_t>(index));
        return;
      case 1: {
        Field copy = field;
        if (place.schema == Schema::graph && copy.number == onnx::graph_field::kNode && copy.message) {
          // Under names of its own, or the model would only be refused.
          std::vector<std::string> outputs = copy.message->texts(onnx::node_field::kOutput);
          for (std::string& output : outputs)
            if (!output.empty()) output += std::to_string(below(1000));
          copy.message->set_texts(onnx::node_field::kOutput, outputs);
        }
        fields.insert(fields.begin() + static_cast<ptrdiff_t>(below(fields.size() + 1)), std::move(copy));
        return;
      }
      case 2:
        std::swap(field, fields[below(fields.size())]);
        return;
      default:
        break;
    }
    if (field.wire != Wire::bytes) {
      change_number(field);
    } else if (!field.message) {
      // A name of its kind, lists of numbers, the bytes of a tensor.
      const Field& other = fields[below(fields.size())];
      if (other.wire == Wire::bytes && !other.message && below(3) == 0)
        field = onnx::bytes_field(field.number, onnx::contents(other));
      else
        field = onnx::bytes_field(field.number, mutated(onnx::contents(field)));
    }
  }

  void change_node(Message& node, const std::vector<Place>& nodes) {
    Message& other = *nodes[below(nodes.size())].message;
    std::vector<std::string> inputs = node.texts(1);
    switch (below(8)) {
      case 0: {
        static const std::vector<OperatorInfo> operators = supported_operators();
        const OperatorInfo& chosen = operators[below(operators.size())];
        node.set_text(4, chosen.name);
        if (chosen.domain.empty())
          node.remove(7);
        else
          node.set_text(7, chosen.domain);
        return;
      }
      case 1:
        if (!inputs.empty()) inputs.erase(inputs.begin() + static_cast<ptrdiff_t>(below(inputs.size())));
        break;
      case 2:
      case 3: {
        // What other nodes read or make.
        std::vector<std::string> names = other.texts(1);
        for (std::string& name : other.texts(2)) names.push_back(std::move(name));
        names.emplace_back();
        const std::string& name = names[below(names.size())];
        if (inputs.empty() || below(3) == 0)
          inputs.push_back(name);
        else
          inputs[below(inputs.size())] = name;
        break;
      }
      case 4:
        if (inputs.size() > 1) std::swap(inputs[below(inputs.size())], inputs[below(inputs.size())]);
        break;
      case 5: {
        // An attribute of another node.
        std::vector<const Field*> attributes;
        for (const Field& field : other.fields)
          if (field.number == 5) attributes.push_back(&field);
        if (!attributes.empty()) {
          Field copy = *attributes[below(attributes.size())];
          node.fields.push_back(std::move(copy));
        }
        return;
      }
      default: {
        std::vector<Field*> attributes;
        for (Field& field : node.fields)
          if (field.number == 5 && field.message) attributes.push_back(&field);
        if (!attributes.empty())
          change_message({attributes[below(attributes.size())]->message.get(), Schema::attribute});
        return;
      }
    }
    node.set_texts(1, inputs);
  }

  std::minstd_rand random_;
};

onnx::Document opened(const uint8_t* bytes, size_t size) {
  const auto owner = std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes), size);
  return onnx::parse_document(*owner, owner, "");
}

size_t put(const onnx::Document& document, uint8_t* out, size_t capacity) {
  const std::string written = onnx::encode_document(document);
  if (written.size() > capacity) return 0;
  std::memcpy(out, written.data(), written.size());
  return written.size();
}

}  // namespace

size_t mutate_model(uint8_t* bytes, size_t size, size_t capacity, unsigned seed) try {
  onnx::Document document = opened(bytes, size);
  Mutator(seed).change(document.model);
  return put(document, bytes, capacity);
} catch (const Error&) {
  return 0;
}

size_t cross_models(const uint8_t* first, size_t first_size, const uint8_t* second, size_t second_size, uint8_t* out,
                    size_t capacity, unsigned seed) try {
  onnx::Document document = opened(first, first_size), other = opened(second, second_size);
  Field *graph = document.model.find(onnx::model_field::kGraph), *from = other.model.find(onnx::model_field::kGraph);
  if (!graph || !from) return 0;
  Mutator(seed).mix(graph->open(), from->open());
  return put(document, out, capacity);
} catch (const Error&) {
  return 0;
}

}  // namespace transmuter::fuzzing
