#include "ir/print_function.h"

#include <algorithm>

#include "ir/composites/composites.h"
#include "ir/passes/attribute_record.h"
#include "ir/primitives/infer.h"
#include "ir/primitives/primitives.h"

namespace transmuter::ir {
namespace {

// In place of % before the name of a value from outside a region; once more for each region further out.
constexpr char kOutside = '$';

}  // namespace

std::string joined(const std::vector<std::string>& pieces) {
  std::string out;
  for (size_t i = 0; i < pieces.size(); ++i) out += (i ? ", " : "") + pieces[i];
  return out;
}

std::string indented(const std::string& text, const std::string& indent) {
  std::string out;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    out += indent + text.substr(start, end - start) + '\n';
    start = end + 1;
  }
  return out;
}

FunctionPrinter::FunctionPrinter(const Program& program, Bindings* bindings, FunctionPrinter* around)
    : program_(program), bindings_(bindings), around_(around), names_(static_cast<size_t>(program.value_count())) {
  for (size_t i = 0; i < program.parameters().size(); ++i) {
    set(program.parameters()[i].value, str("%arg", i));
    note_symbols(program.parameters()[i].value);
  }
}

std::string FunctionPrinter::arguments(const std::vector<std::string>& attributes) {
  std::vector<std::string> out;
  for (const Parameter& parameter : program_.parameters()) {
    std::string text = name(parameter.value) + ": " + type_text(parameter.value);
    if (out.size() < attributes.size() && !attributes[out.size()].empty()) text += " " + attributes[out.size()];
    out.push_back(std::move(text));
  }
  return joined(out);
}

std::string FunctionPrinter::body(const char* terminator_name) {
  ops();
  terminator(terminator_name, names_of(program_.results()), result_types());
  return std::move(text_);
}

std::string FunctionPrinter::type_text(const Type& type) {
  std::string out = "tensor<";
  for (const Dim extent : type.shape) out += is_fixed(extent) ? str(number(extent), "x") : "?x";
  return out + element_type_text(type.dtype) + ">";
}

std::vector<std::string> FunctionPrinter::names_of(const std::vector<Value>& values) const {
  std::vector<std::string> out;
  for (const Value value : values) out.push_back(name(value));
  return out;
}

std::vector<std::string> FunctionPrinter::types_of(const std::vector<Value>& values) {
  std::vector<std::string> out;
  for (const Value value : values) out.push_back(type_text(value));
  return out;
}

std::vector<std::string> FunctionPrinter::emit_all(const std::string& op, const std::vector<std::string>& operands,
                                                   const std::vector<std::string>& types,
                                                   const std::vector<std::string>& results,
                                                   const std::string& attributes, const std::string& regions) {
  const std::string result = str("%", next_++);
  std::vector<std::string> names;
  for (size_t i = 0; i < results.size(); ++i) names.push_back(results.size() == 1 ? result : str(result, "#", i));
  if (results.size() == 1) text_ += result + " = ";
  if (results.size() > 1) text_ += str(result, ":", results.size(), " = ");
  text_ += str('"', op, "\"(", joined(operands), ")");
  if (!regions.empty()) text_ += " " + regions;
  if (!attributes.empty()) text_ += " {" + attributes + "}";
  text_ += str(" : (", joined(types), ") -> ");
  text_ += (results.size() == 1 ? results[0] : "(" + joined(results) + ")") + "\n";
  return names;
}

std::string FunctionPrinter::emit(const std::string& op, const std::vector<std::string>& operands,
                                  const std::vector<std::string>& types, const std::string& result,
                                  const std::string& attributes, const std::string& regions) {
  return emit_all(op, operands, types, {result}, attributes, regions)[0];
}

// What is one size to one op and another to the next is a number here and "?" there.
std::string FunctionPrinter::cast(const std::string& value, const std::string& from, const std::string& to) {
  return from == to ? value : emit("stablehlo.convert", {value}, {from}, to);
}

void FunctionPrinter::define(const Op& op, const std::vector<std::string>& values,
                             const std::vector<std::string>& types) {
  for (size_t i = 0; i < op.results.size(); ++i) {
    set(op.results[i], cast(values[i], types[i], type_text(op.results[i])));
    note_symbols(op.results[i]);
  }
}

void FunctionPrinter::note_symbols(Value value) {
  const Dims& shape = program_.type(value).shape;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (is_fixed(shape[axis])) continue;
    const std::optional<int32_t> symbol = symbol_of(*program_.scope(), shape[axis]);
    if (symbol) sources_.try_emplace(*symbol, Source{name(value), type_text(value), axis, true});
  }
}

void FunctionPrinter::ops() {
  for (const Op& op : program_.ops()) print(op);
}

void FunctionPrinter::print(const Op& op) {
  const size_t first = op.results.empty() ? 0 : static_cast<size_t>(op.results[0].id);
  if (constants_ && first < constants_->size() && (*constants_)[first])
    return define(
        op,
        {emit("stablehlo.constant", {}, {}, type_text(op.results[0]), "value = " + dense_text((*constants_)[first]))},
        types_of(op.results));
  if (op.primitive == &prim::case_of) return print_case(op);
  if (op.primitive == &prim::while_loop) return print_while(op);
  if (op.primitive == &composite::loop && print_loop(op)) return;
  if (op.primitive == &composite::read_values) {  // the elements are sizes from here on
    const Dims& symbols = op.as<ReadValuesAttributes>().symbols;
    std::string values = name(op.operands[0]), type = type_text(op.operands[0]);
    set(op.results[0], values);
    if (program_.type(op.operands[0]).rank() > 1) {
      const std::string flat = str("tensor<", symbols.size(), "xi64>");
      values = emit("stablehlo.reshape", {values}, {type}, flat);
      type = flat;
    }
    for (size_t i = 0; i < symbols.size(); ++i) {
      const std::optional<int32_t> symbol = symbol_of(*program_.scope(), symbols[i]);
      if (symbol) sources_.try_emplace(*symbol, Source{values, type, i, false});
    }
    return;
  }
  const AttributeRecord attributes(op.attributes.get());
  bool fixed = is_fixed(attributes.dims);
  for (const Real& r : attributes.reals) fixed = fixed && (r.is_constant() || !bindings_ || is_fixed(r.expr()));
  // A broadcast of sizes that only the run knows has another form, whatever comes out.
  const bool is_broadcast = op.primitive == &prim::broadcast_in_dim;
  if ((!fixed || (is_broadcast && !is_fixed(program_.type(op.operands[0])))) && print_dynamic(op)) return;
  const PrintContext context{program_, op, bindings_};
  const bool hidden = !fixed || op.primitive == &composite::loop;
  print_plain(op, hidden                ? print_custom_call(context)
                  : op.primitive->print ? op.primitive->print(context)
                                        : PrintedOp());
}

void FunctionPrinter::print_plain(const Op& op, PrintedOp printed) {
  if (printed.name.empty()) printed.name = str("stablehlo.", op.primitive->name);
  std::vector<std::string> operands = names_of(op.operands), types = types_of(op.operands);
  operands.insert(operands.end(), printed.extra_operands.begin(), printed.extra_operands.end());
  types.insert(types.end(), printed.extra_operand_types.begin(), printed.extra_operand_types.end());
  text_ += printed.before;
  if (!text_.empty() && text_.back() != '\n') text_ += '\n';
  const std::vector<std::string> results = types_of(op.results);
  define(op, emit_all(printed.name, operands, types, results, printed.attributes, printed.regions), results);
}

void FunctionPrinter::terminator(const char* name, const std::vector<std::string>& values,
                                 const std::vector<std::string>& types) {
  text_ += str('"', name, "\"(", joined(values), ") : (", joined(types), ") -> ()\n");
}

void FunctionPrinter::name_parameters(const std::vector<std::string>& values, const std::vector<std::string>& types) {
  sources_.clear();
  for (size_t i = 0; i < program_.parameters().size(); ++i) {
    const Value parameter = program_.parameters()[i].value;
    set(parameter, cast(values[i], types[i], type_text(parameter)));
    note_symbols(parameter);
  }
}

std::string FunctionPrinter::region(const std::string& arguments, const std::string& lines) {
  const std::string text =
      (arguments.empty() ? "{\n^bb0:\n" : "{\n^bb0(" + arguments + "):\n") + indented(lines, "  ") + "}";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool outermost = c == kOutside && (i + 1 == text.size() || text[i + 1] != kOutside);
    if (c == '%') {
      out += "%r_";
    } else if (outermost && i > 0 && text[i - 1] == kOutside) {
      continue;  // one region out of several
    } else {
      out += outermost ? '%' : c;
    }
  }
  return out;
}

std::string FunctionPrinter::from_inside(const std::string& value) {
  return value[0] == '%' ? kOutside + value.substr(1) : kOutside + value;
}

}  // namespace transmuter::ir
