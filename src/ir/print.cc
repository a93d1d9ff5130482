#include "ir/print.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/dim_table.h"
#include "base/dispatch.h"
#include "ir/passes/attribute_record.h"
#include "ir/passes/counts_as_sorts.h"
#include "ir/passes/inline_composites.h"
#include "ir/passes/loops_as_while.h"
#include "ir/passes/stablehlo_form.h"
#include "ir/print_function.h"
#include "tensor/packed.h"

namespace transmuter::ir {

std::string element_type_text(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return "i1";
    case DType::f4e2m1:
      return "f4E2M1FN";
    case DType::f6e2m3:
      return "f6E2M3FN";
    case DType::f6e3m2:
      return "f6E3M2FN";
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

// What only the run knows.
bool depends_on_data(const ShapeScope& scope, const Symbol& symbol) {
  return scope.impl().table.nodes[symbol.expr].data_dependent;
}

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

std::string print_stablehlo(const Program& program, Bindings* bindings, const std::string& module_name) {
  return print_module(stablehlo_form(counts_as_sorts(loops_as_while(inline_composites(program)))), bindings,
                      {.name = module_name});
}

std::string print_module(const Program& plain, Bindings* bindings, const ModuleOptions& options) {
  // The hints of one dim may be older than those of another; those of the symbols are all of today.
  std::optional<Bindings> examples;
  if (!bindings && plain.scope()) {
    examples.emplace(plain.scope());
    const std::vector<Symbol>& symbols = plain.scope()->symbols();
    for (size_t i = 0; i < symbols.size(); ++i)
      if (!depends_on_data(*plain.scope(), symbols[i])) examples->set(static_cast<int32_t>(i), symbols[i].hint);
  }
  FunctionPrinter printer(plain, examples ? &*examples : bindings);
  printer.use_constants(options.constants);
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
  std::string arguments = printer.arguments(options.argument_attributes);
  std::string body = printer.body("func.return");
  out += str("module @", options.name, " {\n  func.func public @main(", arguments, ") -> (",
             joined(printer.result_types()), ") {\n", indented(body, "    "), "  }\n}\n");
  return out;
}

}  // namespace transmuter::ir
