#include "onnx/proto.h"

#include <algorithm>
#include <set>

#include "onnx/wire.h"

namespace transmuter::onnx {
namespace {

constexpr int kMaxTypeDepth = 64;

[[noreturn]] void refuse(const std::string& sentence) { throw Error(ErrorCode::invalid_model, sentence); }

void parse_opset(std::string_view message, Opsets& opsets) {
  std::string domain;
  int64_t version = 0;
  Fields fields(message);
  while (fields.next()) {
    if (fields.field() == 1)
      domain = normalised_domain(fields.text());
    else if (fields.field() == 2)
      version = fields.int64();
    else
      fields.skip();
  }
  const std::string shown = domain.empty() ? "ai.onnx" : domain;
  if (version < 1) refuse(str("the operator set \"", shown, "\" is imported with version ", version));
  const auto [known, added] = opsets.emplace(domain, version);
  if (!added && known->second != version)
    refuse(str("the operator set \"", shown, "\" is imported with versions ", known->second, " and ", version));
}

DeclaredDim parse_dim(std::string_view message) {
  DeclaredDim dim;
  Fields fields(message);
  while (fields.next()) {
    switch (fields.field()) {
      case 1:
        // Exporters write -1 and the like for "unknown".
        dim.value = std::max<int64_t>(fields.int64(), -1);
        dim.param.clear();
        break;
      case 2:
        dim.param = fields.text();
        dim.value = -1;
        break;
      default:
        fields.skip();
    }
  }
  return dim;
}

// TypeProto.Tensor and TypeProto.SparseTensor. Element type 0 leaves the dtype invalid.
void parse_tensor_type(std::string_view message, ValueInfo& info) {
  info.kind = ValueInfo::Kind::tensor;
  Fields fields(message);
  while (fields.next()) {
    switch (fields.field()) {
      case 1: {
        const int32_t number = fields.int32();
        info.dtype = number == 0 ? DType::invalid : dtype_of_number(number);
        break;
      }
      case 2: {
        info.has_shape = true;
        info.shape.clear();
        Fields shape(fields.bytes());
        while (shape.next()) {
          if (shape.field() == 1)
            info.shape.push_back(parse_dim(shape.bytes()));
          else
            shape.skip();
        }
        break;
      }
      default:
        fields.skip();
    }
  }
}

void parse_type(std::string_view message, ValueInfo& info, int depth) {
  if (depth > kMaxTypeDepth) refuse(str("a type is nested deeper than ", kMaxTypeDepth, " levels"));
  Fields fields(message);
  while (fields.next()) {
    switch (fields.field()) {
      case 1:
      case 8:
        parse_tensor_type(fields.bytes(), info);
        break;
      case 4:
      case 9: {
        info.kind = fields.field() == 4 ? ValueInfo::Kind::sequence : ValueInfo::Kind::optional;
        auto element = std::make_shared<ValueInfo>();
        Fields inner(fields.bytes());
        while (inner.next()) {
          if (inner.field() == 1)
            parse_type(inner.bytes(), *element, depth + 1);
          else
            inner.skip();
        }
        info.element = std::move(element);
        break;
      }
      case 5: {
        info.kind = ValueInfo::Kind::map;
        Fields inner(fields.bytes());
        while (inner.next()) {
          if (inner.field() == 1) {
            info.key_dtype = dtype_of_number(inner.int32());
          } else if (inner.field() == 2) {
            ValueInfo value;
            parse_type(inner.bytes(), value, depth + 1);
            info.dtype = value.dtype;
          } else {
            inner.skip();
          }
        }
        break;
      }
      case 7:
        throw Error(ErrorCode::unsupported, "opaque types are not supported");
      default:
        fields.skip();
    }
  }
}

// Recursion through graphs: what the messages belong to, and how deep we are.
struct Context {
  const Source& source;
  int depth = 0;
};

std::shared_ptr<GraphProto> parse_graph(std::string_view message, Context context);

using Kind = Attribute::Kind;

// AttributeProto.AttributeType to Kind; lists of sparse tensors arrive as tensors.
Kind kind_of_number(int32_t number) {
  switch (number) {
    case 0:
      return Kind::none;
    case 1:
      return Kind::f;
    case 2:
      return Kind::i;
    case 3:
      return Kind::s;
    case 4:
      return Kind::tensor;
    case 5:
      return Kind::graph;
    case 6:
      return Kind::floats;
    case 7:
      return Kind::ints;
    case 8:
      return Kind::strings;
    case 9:
    case 12:
      return Kind::tensors;
    case 10:
      return Kind::graphs;
    case 11:
      return Kind::sparse_tensor;
    case 13:
      return Kind::type;
    case 14:
      throw Error(ErrorCode::unsupported, "attributes that are lists of types are not supported");
    default:
      refuse(str("there is no attribute type ", number));
  }
}

void parse_attribute_fields(std::string_view message, const Context& context, AttributeProto& attribute) {
  Attribute& value = attribute.value;
  Kind declared = Kind::none;
  Kind held = Kind::none;
  bool mixed = false;
  const auto hold = [&](Kind kind) {
    mixed = mixed || (held != Kind::none && held != kind);
    held = kind;
  };
  Fields fields(message);
  while (fields.next()) {
    switch (fields.field()) {
      case 1:
        value.name = fields.text();
        break;
      case 21:
        attribute.reference = fields.text();
        break;
      case 20:
        declared = kind_of_number(fields.int32());
        break;
      case 2:
        hold(Kind::f);
        value.f = fields.float32();
        break;
      case 3:
        hold(Kind::i);
        value.i = fields.int64();
        break;
      case 4:
        hold(Kind::s);
        value.s = fields.text();
        break;
      case 5:
        hold(Kind::tensor);
        value.tensor = parse_tensor(fields.bytes(), context.source).tensor;
        break;
      case 6:
        hold(Kind::graph);
        attribute.graph = parse_graph(fields.bytes(), {context.source, context.depth + 1});
        break;
      case 22:
        hold(Kind::sparse_tensor);
        value.tensor = parse_sparse_tensor(fields.bytes(), context.source).tensor;
        break;
      case 14:
        hold(Kind::type);
        parse_type(fields.bytes(), value.type, 0);
        break;
      case 7:
        hold(Kind::floats);
        fields.each_float32([&](float x) { value.floats.push_back(x); });
        break;
      case 8:
        hold(Kind::ints);
        fields.each_int64([&](int64_t x) { value.ints.push_back(x); });
        break;
      case 9:
        hold(Kind::strings);
        value.strings.push_back(fields.text());
        break;
      case 10:
        hold(Kind::tensors);
        value.tensors.push_back(parse_tensor(fields.bytes(), context.source).tensor);
        break;
      case 23:
        hold(Kind::tensors);
        value.tensors.push_back(parse_sparse_tensor(fields.bytes(), context.source).tensor);
        break;
      case 11:
        hold(Kind::graphs);
        attribute.graphs.push_back(parse_graph(fields.bytes(), {context.source, context.depth + 1}));
        break;
      default:
        fields.skip();
    }
  }
  if (value.name.empty()) refuse("an attribute has no name");
  if (mixed || (declared != Kind::none && held != Kind::none && declared != held))
    refuse(str("the attribute \"", value.name, "\" holds values of another type than it says"));
  // Scalars with the value zero and empty lists may be left out.
  value.kind = declared != Kind::none ? declared : held;
  if (!attribute.reference.empty()) {
    if (held != Kind::none) refuse(str("the attribute \"", value.name, "\" has a value and refers to another"));
    return;
  }
  const bool empty = (value.kind == Kind::tensor && !value.tensor) || (value.kind == Kind::graph && !attribute.graph) ||
                     (value.kind == Kind::sparse_tensor && !value.tensor) || value.kind == Kind::none;
  if (empty) refuse(str("the attribute \"", value.name, "\" has no value"));
}

AttributeProto parse_attribute(std::string_view message, const Context& context) {
  AttributeProto attribute;
  within([&] { return str("attribute \"", attribute.value.name, "\""); },
         [&] { parse_attribute_fields(message, context, attribute); });
  return attribute;
}

NodeProto parse_node(std::string_view message, const Context& context, size_t index) {
  NodeProto result;
  Node& node = result.node;
  const auto set_label = [&] { node.label = node.name.empty() ? str(node.op_type, '_', index) : node.name; };
  within(
      [&] {
        set_label();
        return describe(node);
      },
      [&] {
        Fields fields(message);
        while (fields.next()) {
          switch (fields.field()) {
            case 1:
              node.inputs.push_back(fields.text());
              break;
            case 2:
              node.outputs.push_back(fields.text());
              break;
            case 3:
              node.name = fields.text();
              break;
            case 4:
              node.op_type = fields.text();
              break;
            case 5:
              result.attributes.push_back(parse_attribute(fields.bytes(), context));
              break;
            case 7:
              node.domain = normalised_domain(fields.text());
              break;
            case 8:
              result.overload = fields.text();
              break;
            default:
              fields.skip();
          }
        }
        set_label();
        if (node.op_type.empty()) refuse("a node has no operator");
        std::set<std::string_view> names;
        for (const AttributeProto& attribute : result.attributes)
          if (!names.insert(attribute.value.name).second)
            refuse(str("the attribute \"", attribute.value.name, "\" is given twice"));
      });
  return result;
}

std::shared_ptr<GraphProto> parse_graph(std::string_view message, Context context) {
  if (context.depth > kMaxGraphDepth) refuse(str("graphs are nested deeper than ", kMaxGraphDepth, " levels"));
  auto graph = std::make_shared<GraphProto>();
  within([&] { return describe_graph(graph->name); },
         [&] {
           Fields fields(message);
           while (fields.next()) {
             switch (fields.field()) {
               case 1:
                 graph->nodes.push_back(parse_node(fields.bytes(), context, graph->nodes.size()));
                 break;
               case 2:
                 graph->name = fields.text();
                 break;
               case 5:
                 graph->initializers.push_back(parse_tensor(fields.bytes(), context.source));
                 break;
               case 15:
                 graph->initializers.push_back(parse_sparse_tensor(fields.bytes(), context.source));
                 break;
               case 11:
                 graph->inputs.push_back(parse_value_info(fields.bytes()));
                 break;
               case 12:
                 graph->outputs.push_back(parse_value_info(fields.bytes()));
                 break;
               case 13:
                 graph->value_infos.push_back(parse_value_info(fields.bytes()));
                 break;
               default:
                 fields.skip();
             }
           }
         });
  return graph;
}

FunctionProto parse_function(std::string_view message, const Context& context) {
  FunctionProto function;
  within([&] { return str("function \"", function.name, "\""); },
         [&] {
           Fields fields(message);
           while (fields.next()) {
             switch (fields.field()) {
               case 1:
                 function.name = fields.text();
                 break;
               case 4:
                 function.inputs.push_back(fields.text());
                 break;
               case 5:
                 function.outputs.push_back(fields.text());
                 break;
               case 6:
                 function.attributes.push_back(fields.text());
                 break;
               case 7:
                 function.nodes.push_back(parse_node(fields.bytes(), context, function.nodes.size()));
                 break;
               case 9:
                 parse_opset(fields.bytes(), function.opsets);
                 break;
               case 10:
                 function.domain = normalised_domain(fields.text());
                 break;
               case 11:
                 function.defaults.push_back(parse_attribute(fields.bytes(), context));
                 break;
               case 13:
                 function.overload = fields.text();
                 break;
               default:
                 fields.skip();
             }
           }
         });
  return function;
}

}  // namespace

std::string normalised_domain(std::string domain) { return domain == "ai.onnx" ? std::string() : std::move(domain); }

ValueInfo parse_value_info(std::string_view message) {
  ValueInfo info;
  within([&] { return str("value \"", info.name, "\""); },
         [&] {
           Fields fields(message);
           while (fields.next()) {
             switch (fields.field()) {
               case 1:
                 info.name = fields.text();
                 break;
               case 2:
                 parse_type(fields.bytes(), info, 0);
                 break;
               default:
                 fields.skip();
             }
           }
         });
  return info;
}

ModelProto parse_model_proto(std::string_view bytes, const Source& source) {
  ModelProto model;
  const Context context{source, 0};
  Fields fields(bytes);
  while (fields.next()) {
    switch (fields.field()) {
      case 1:
        model.ir_version = fields.int64();
        break;
      case 2:
        model.producer = fields.text();
        break;
      case 3:
        model.producer_version = fields.text();
        break;
      case 7:
        if (model.graph) refuse("the model holds two graphs");
        model.graph = std::make_unique<GraphProto>(std::move(*parse_graph(fields.bytes(), context)));
        break;
      case 8:
        parse_opset(fields.bytes(), model.opsets);
        break;
      case 14: {
        std::pair<std::string, std::string> entry = parse_entry(fields.bytes());
        model.metadata[std::move(entry.first)] = std::move(entry.second);
        break;
      }
      case 25:
        model.functions.push_back(parse_function(fields.bytes(), context));
        break;
      default:
        fields.skip();
    }
  }
  return model;
}

std::string describe(const Node& node) { return str("node \"", node.label, "\" (", node.op_type, ")"); }

std::string describe_graph(const std::string& name) { return str("graph \"", name, "\""); }

}  // namespace transmuter::onnx
