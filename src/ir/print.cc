#include "ir/print.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/dispatch.h"
#include "ir/composites/composites.h"
#include "ir/passes/attribute_record.h"
#include "ir/passes/inline_composites.h"
#include "ir/passes/loops_as_while.h"
#include "ir/passes/stablehlo_form.h"
#include "ir/primitives/primitives.h"
#include "tensor/packed.h"

namespace transmuter::ir {

std::string element_type_text(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return "i1";
    case DType::f4e2m1:
      return "f4E2M1FN";
    case DType::f8e4m3fn:
      return "f8E4M3FN";
    case DType::f8e4m3fnuz:
      return "f8E4M3FNUZ";
    case DType::f8e5m2:
      return "f8E5M2";
    case DType::f8e5m2fnuz:
      return "f8E5M2FNUZ";
    case DType::f8e8m0:
      return "f8E8M0FNU";
    case DType::bf16:
      return "bf16";
    case DType::c64:
      return "complex<f32>";
    case DType::c128:
      return "complex<f64>";
    default:
      break;
  }
  if (is_integer(dtype)) return str(is_unsigned_integer(dtype) ? "ui" : "i", bit_width(dtype));
  if (is_float(dtype)) return str("f", bit_width(dtype));
  throw Error(ErrorCode::unsupported, str("StableHLO has no ", name(dtype)));
}

std::string tensor_type_text(DType dtype, const Shape& shape) {
  std::string out = "tensor<";
  for (int64_t extent : shape) out += str(extent, "x");
  return out + element_type_text(dtype) + ">";
}

std::string array_text(const std::vector<int64_t>& values) {
  std::string out = "array<i64";
  for (size_t i = 0; i < values.size(); ++i) out += str(i ? ", " : ": ", values[i]);
  return out + ">";
}

namespace {

std::string hex(const void* bytes, size_t count, bool little_endian_value) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out = "0x";
  for (size_t i = 0; i < count; ++i) {
    auto byte = static_cast<const uint8_t*>(bytes)[little_endian_value ? count - 1 - i : i];
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

// Exact decimal with a point, as MLIR wants it; `bits` where there is none.
std::string float_text(double value, int digits, std::string bits) {
  if (!std::isfinite(value)) return bits;
  char text[40];
  std::snprintf(text, sizeof text, "%.*e", digits - 1, value);
  // 1.25000000e+00 -> 1.25: only for reading.
  std::string out = text;
  size_t exponent = out.find('e'), end = exponent;
  while (end > 0 && out[end - 1] == '0' && out[end - 2] != '.') --end;
  std::string tail = out.substr(exponent);
  return out.substr(0, end) + (tail == "e+00" ? "" : tail);
}

std::string element_text(const Tensor& value, DType dtype, int64_t i) {
  size_t width = static_cast<size_t>(bit_width(value.dtype()) / 8);
  const std::byte* at = value.bytes() + static_cast<size_t>(i) * width;
  if (dtype == DType::boolean) return std::to_integer<int>(*at) ? "true" : "false";
  if (dtype == DType::c64 || dtype == DType::c128) {
    const Tensor wide = value.cast(DType::c128);
    c128 z = elements<c128>(wide)[i];
    int digits = dtype == DType::c64 ? 9 : 17;
    return str("(", float_text(z.re, digits, hex(at, width / 2, true)), ", ",
               float_text(z.im, digits, hex(at + width / 2, width / 2, true)), ")");
  }
  if (is_integer(dtype))
    return dispatch_integer(value.dtype(), "printing",
                            [&]<class T>(TypeTag<T>) { return std::to_string(elements<T>(value)[i]); });
  if (bit_width(dtype) < 16) return hex(at, width, true);
  return dispatch_float(dtype, "printing", [&]<class T>(TypeTag<T>) {
    return float_text(static_cast<double>(load<T>(elements<T>(value)[i])), std::is_same_v<T, double> ? 17 : 9,
                      hex(at, width, true));
  });
}

void append_nested(std::string& out, const Tensor& value, DType dtype, size_t axis, int64_t& next) {
  if (axis == value.shape().size()) {
    out += element_text(value, dtype, next++);
    return;
  }
  out += '[';
  for (int64_t i = 0; i < value.shape()[axis]; ++i) {
    if (i) out += ", ";
    append_nested(out, value, dtype, axis + 1, next);
  }
  out += ']';
}

bool is_splat(const Tensor& value) {
  size_t width = static_cast<size_t>(bit_width(value.dtype()) / 8);
  for (int64_t i = 1; i < value.size(); ++i)
    if (std::memcmp(value.bytes(), value.bytes() + static_cast<size_t>(i) * width, width) != 0) return false;
  return true;
}

}  // namespace

std::string dense_text(const Tensor& stored) {
  constexpr int64_t kReadable = 64;  // more elements are written as one string of bytes
  DType dtype = stored.dtype();
  const Tensor value = unpack(stored.aligned());
  std::string out = "dense<";
  int64_t next = 0;
  if (value.size() == 0) {
    // nothing between the brackets
  } else if (is_splat(value)) {
    out += element_text(value, dtype, 0);
  } else if (value.size() > kReadable && bit_width(dtype) >= 8 && dtype != DType::boolean) {
    out += '"' + hex(value.bytes(), value.nbytes(), false) + '"';
  } else {
    append_nested(out, value, dtype, 0, next);
  }
  return out + "> : " + tensor_type_text(dtype, value.shape());
}

int64_t PrintContext::value(Dim dim) const { return bindings ? bindings->evaluate(dim) : dim.hint(); }

std::vector<int64_t> PrintContext::values(const Dims& dims) const {
  std::vector<int64_t> out;
  for (Dim dim : dims) out.push_back(value(dim));
  return out;
}

std::string PrintContext::type_text(const Type& type) const { return tensor_type_text(type.dtype, values(type.shape)); }

namespace {

std::string joined(const std::vector<std::string>& pieces) {
  std::string out;
  for (size_t i = 0; i < pieces.size(); ++i) out += (i ? ", " : "") + pieces[i];
  return out;
}

std::string indented(const std::string& text, const std::string& indent) {
  std::string out;
  for (size_t start = 0; start < text.size();) {
    size_t end = std::min(text.find('\n', start), text.size());
    out += indent + text.substr(start, end - start) + '\n';
    start = end + 1;
  }
  return out;
}

constexpr char kCaptured = '$';  // in place of % before the name of a value from outside a region

class FunctionPrinter {
 public:
  FunctionPrinter(const Program& program, Bindings* bindings)
      : program_(program), bindings_(bindings), names_(static_cast<size_t>(program.value_count())) {
    for (size_t i = 0; i < program.parameters().size(); ++i) name(program.parameters()[i].value) = str("%arg", i);
  }

  // The parameters are values from outside.
  void capture(const std::vector<std::string>& names) {
    for (size_t i = 0; i < names.size(); ++i) name(program_.parameters()[i].value) = kCaptured + names[i].substr(1);
  }

  std::string arguments(const std::vector<std::string>& attributes = {}) {
    std::vector<std::string> out;
    for (const Parameter& parameter : program_.parameters()) {
      std::string text = name(parameter.value) + ": " + type_text(parameter.value);
      if (out.size() < attributes.size() && !attributes[out.size()].empty()) text += " " + attributes[out.size()];
      out.push_back(std::move(text));
    }
    return joined(out);
  }
  std::vector<std::string> result_types() { return types_of(program_.results()); }

  // The ops and the terminator, one a line.
  std::string body(const char* terminator) {
    std::string out;
    for (const Op& op : program_.ops()) out += line(op);
    return out + str('"', terminator, "\"(", joined(names_of(program_.results())), ") : (", joined(result_types()),
                     ") -> ()\n");
  }

 private:
  std::string& name(Value value) { return names_[static_cast<size_t>(value.id)]; }
  std::string type_text(Value value) {
    const Type& type = program_.type(value);
    return tensor_type_text(type.dtype, bindings_ ? bindings_->evaluate(type.shape) : hints(type.shape));
  }
  std::vector<std::string> names_of(const std::vector<Value>& values) {
    std::vector<std::string> out;
    for (Value value : values) out.push_back(name(value));
    return out;
  }
  std::vector<std::string> types_of(const std::vector<Value>& values) {
    std::vector<std::string> out;
    for (Value value : values) out.push_back(type_text(value));
    return out;
  }

  // Loops of which only the run knows the length, and branches that give different sizes: StableHLO has no op for them.
  bool hides_regions(const Op& op) const {
    if (op.primitive == &composite::loop) return true;
    if (op.primitive != &prim::case_of) return false;
    for (const ProgramPtr& branch : op.regions)
      for (size_t r = 0; r < op.results.size(); ++r)
        if (hints(program_.type(op.results[r]).shape) != hints(branch->type(branch->results()[r]).shape)) return true;
    return false;
  }

  std::string line(const Op& op) {
    PrintedOp printed;
    PrintContext context{program_, op, bindings_};
    if (op.primitive->print) printed = op.primitive->print(context);
    if (printed.name.empty()) printed.name = str("stablehlo.", op.primitive->name);
    std::vector<std::string> operands = names_of(op.operands), types = types_of(op.operands);
    const bool beyond_stablehlo = hides_regions(op);
    if (beyond_stablehlo) printed = print_custom_call(context);
    if (printed.regions.empty() && !op.regions.empty() && !beyond_stablehlo) {
      // The branches of StableHLO's case take no arguments: they read what is around them.
      bool captures = op.primitive == &prim::case_of;
      const std::vector<std::string> captured(operands.begin() + captures, operands.end());
      if (captures) operands.resize(1), types.resize(1);
      std::vector<std::string> regions;
      for (const ProgramPtr& region : op.regions)
        regions.push_back(program_region_text(*region, bindings_, captures ? &captured : nullptr));
      printed.regions = "(" + joined(regions) + ")";
    }
    operands.insert(operands.end(), printed.extra_operands.begin(), printed.extra_operands.end());
    types.insert(types.end(), printed.extra_operand_types.begin(), printed.extra_operand_types.end());

    std::string result = str("%", next_++);
    std::vector<std::string> results = types_of(op.results);
    for (size_t i = 0; i < op.results.size(); ++i)
      name(op.results[i]) = op.results.size() == 1 ? result : str(result, "#", i);
    std::string out = printed.before;
    if (!out.empty() && out.back() != '\n') out += '\n';
    if (op.results.size() == 1) out += result + " = ";
    if (op.results.size() > 1) out += str(result, ":", op.results.size(), " = ");
    out += str('"', printed.name, "\"(", joined(operands), ")");
    if (!printed.regions.empty()) out += " " + printed.regions;
    if (!printed.attributes.empty()) out += " {" + printed.attributes + "}";
    out += str(" : (", joined(types), ") -> ");
    return out + (results.size() == 1 ? results[0] : "(" + joined(results) + ")") + "\n";
  }

  const Program& program_;
  Bindings* bindings_;
  std::vector<std::string> names_;
  int next_ = 0;
};

}  // namespace

PrintedOp print_custom_call(const PrintContext& context) {
  std::string attributes;
  for (const char c : attribute_text(context.op.attributes.get()))
    attributes += c == '"' || c == '\\' ? str('\\', c) : std::string(1, c);
  PrintedOp out;
  out.name = "stablehlo.custom_call";
  out.attributes = str("call_target_name = \"transmuter.", context.op.primitive->name, "\", backend_config = \"",
                       attributes, "\", has_side_effect = false");
  return out;
}

std::string program_region_text(const Program& program, Bindings* bindings, const std::vector<std::string>* captured) {
  FunctionPrinter printer(program, bindings);
  std::string head = "^bb0:";
  if (captured)
    printer.capture(*captured);
  else if (!program.parameters().empty())
    head = "^bb0(" + printer.arguments() + "):";
  std::string text = str("{\n", head, "\n", indented(printer.body("stablehlo.return"), "  "), "}");
  // A region may not repeat a name of the function around it.
  std::string out;
  for (char c : text) out += c == '%' ? "%r_" : c == kCaptured ? "%" : std::string(1, c);
  return out;
}

std::string print_stablehlo(const Program& program, Bindings* bindings, const std::string& module_name) {
  return print_module(stablehlo_form(loops_as_while(inline_composites(program))), bindings, module_name);
}

std::string print_module(const Program& plain, Bindings* bindings, const std::string& module_name,
                         const std::vector<std::string>& argument_attributes) {
  // The hints of one dim may be older than those of another; those of the symbols are all of today.
  std::optional<Bindings> examples;
  if (!bindings && plain.scope()) {
    examples.emplace(plain.scope());
    const std::vector<Symbol>& symbols = plain.scope()->symbols();
    for (size_t i = 0; i < symbols.size(); ++i) examples->set(static_cast<int32_t>(i), symbols[i].hint);
  }
  FunctionPrinter printer(plain, examples ? &*examples : bindings);
  std::string out;
  bool symbolic = false;
  for (const Parameter& parameter : plain.parameters())
    for (Dim extent : plain.type(parameter.value).shape) symbolic = symbolic || !extent.is_constant();
  if (symbolic && !bindings) out += "// Extents are those of the example inputs; others are possible.\n";
  for (size_t i = 0; i < plain.parameters().size(); ++i) {
    const Parameter& parameter = plain.parameters()[i];
    std::string label = parameter.name;
    std::replace_if(
        label.begin(), label.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
    out += str("// %arg", i, parameter.kind == Parameter::Kind::weight ? ": weight " : ": input ", label, "\n");
  }
  std::string arguments = printer.arguments(argument_attributes);
  std::string body = printer.body("func.return");
  out += str("module @", module_name, " {\n  func.func public @main(", arguments, ") -> (",
             joined(printer.result_types()), ") {\n", indented(body, "    "), "  }\n}\n");
  return out;
}

}  // namespace transmuter::ir
