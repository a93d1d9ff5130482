#include "runtime/trace.h"

#include "base/strings.h"

namespace transmuter::runtime {

void bind_symbols(const ShapeScope& scope, const std::vector<Value>& slots, Bindings& bindings) {
  const std::vector<Symbol>& symbols = scope.symbols();
  for (size_t i = 0; i < symbols.size(); ++i) {
    const int32_t symbol = static_cast<int32_t>(i);
    const SymbolSource& source = symbols[i].source;
    if (source.kind == SymbolSource::Kind::data_dependent || bindings.has(symbol)) continue;
    const Value& value = slots[static_cast<size_t>(source.index)];
    if (!value.is_tensor()) continue;
    const bool extent =
        source.kind == SymbolSource::Kind::input_extent || source.kind == SymbolSource::Kind::break_extent;
    if (extent) {
      bindings.set(symbol, value.tensor.dim(source.axis));
    } else {
      const Tensor wide = value.tensor.aligned().cast(DType::i64);
      bindings.set(symbol, wide.data<int64_t>()[source.axis]);
    }
  }
}

namespace {

std::string ref_text(const Ref& ref) {
  switch (ref.kind) {
    case Ref::Kind::absent:
      return "-";
    case Ref::Kind::slot:
      return str("%", ref.slot);
    case Ref::Kind::constant:
      return describe(ref.constant);
    case Ref::Kind::sequence:
    case Ref::Kind::optional: {
      std::string text = "(";
      for (const Ref& item : ref.items) text += (text.size() > 1 ? ", " : "") + ref_text(item);
      return text + ")";
    }
  }
  return "";
}

}  // namespace

std::string to_text(const Trace& trace) {
  const ShapeScope::Enter enter(trace.scope);
  std::string text;
  int64_t segments = 0;
  for (const auto& step : trace.steps) segments += std::holds_alternative<Segment>(step) ? 1 : 0;
  text +=
      str("segments ", segments, ", breaks ", trace.breaks, ", guards ", trace.scope->guards().size(), ", assertions ",
          trace.scope->assertions().size(), ", specialisations ", trace.scope->specializations().size(), "\n");
  for (const Symbol& symbol : trace.scope->symbols()) text += str("symbol ", symbol.name, " = ", symbol.hint, "\n");
  for (const Fact& fact : trace.scope->guards()) {
    text += str("guard ", to_string(Dim(fact.expected, fact.truth, trace.scope->tag())), " = ", fact.expected, "  (",
                fact.what, ")\n");
  }
  for (const Fact& fact : trace.scope->assertions()) {
    text += str("assertion ", to_string(Dim(1, fact.truth, trace.scope->tag())), "  (", fact.what, ")\n");
  }
  for (const std::string& what : trace.scope->specializations()) text += str("specialisation ", what, "\n");
  for (const auto& step : trace.steps) {
    if (const auto* segment = std::get_if<Segment>(&step)) {
      text += str("segment: ", segment->program->ops().size(), " ops, inputs ", segment->input_slots, ", outputs ",
                  segment->output_slots, "\n");
    } else {
      const auto& eager = std::get<EagerStep>(step);
      text += str("break: node ", eager.node->label, " (", eager.node->op_type, ") runs eagerly: ", eager.reason,
                  "; inputs");
      for (const Ref& ref : eager.inputs) text += " " + ref_text(ref);
      text += str(", outputs ", eager.output_slots, "\n");
    }
  }
  return text;
}

}  // namespace transmuter::runtime
