#include "runtime/trace.h"

#include <algorithm>
#include <span>

#include "base/scope_copy.h"
#include "base/strings.h"
#include "ir/primitive.h"
#include "runtime/graph_runner.h"
#include "runtime/reads.h"
#include "runtime/rest.h"

namespace transmuter::runtime {

SlotType slot_type(const Value& value) {
  if (!value.is_tensor()) return {value.kind, DType::invalid, -1};
  return {value.kind, value.tensor.dtype(), value.tensor.rank()};
}

bool fits(const SlotType& type, const Value& value) {
  if (type.kind == Value::Kind::none) return true;
  if (value.kind != type.kind) return false;
  return !value.is_tensor() || (value.tensor.dtype() == type.dtype && value.tensor.rank() == type.rank);
}

void bind_symbols(const ShapeScope& scope, const std::vector<Value>& slots, Bindings& bindings) {
  const std::vector<Symbol>& symbols = scope.symbols();
  for (size_t i = 0; i < symbols.size(); ++i) {
    const int32_t symbol = static_cast<int32_t>(i);
    const SymbolSource& source = symbols[i].source;
    if (source.kind == SymbolSource::Kind::data_dependent || bindings.has(symbol)) continue;
    if (static_cast<size_t>(source.index) >= slots.size()) continue;
    const Value& value = slots[static_cast<size_t>(source.index)];
    if (!value.is_tensor()) continue;
    const bool extent =
        source.kind == SymbolSource::Kind::input_extent || source.kind == SymbolSource::Kind::break_extent;
    if (extent) {
      bindings.set(symbol, value.tensor.dim(source.axis));
      continue;
    }
    // Guards on the number of elements come before those on their values in the list, but nothing reads them in order.
    if (source.axis >= value.tensor.size()) continue;
    const Tensor wide = value.tensor.aligned().cast(DType::i64);
    bindings.set(symbol, wide.data<int64_t>()[source.axis]);
  }
}

size_t segments_of(const Trace& trace) {
  return static_cast<size_t>(std::count_if(trace.steps.begin(), trace.steps.end(),
                                           [](const auto& step) { return std::holds_alternative<Segment>(step); }));
}

void find_readers(Trace& trace, const Trace* before) {
  const size_t inputs = trace.present.size();
  trace.readers = before ? before->readers : std::vector<uint8_t>(inputs);
  std::vector<bool> here(inputs);
  const auto read = [&](int32_t slot) {
    if (slot < 0 || static_cast<size_t>(slot) >= inputs) return;
    uint8_t& count = trace.readers[static_cast<size_t>(slot)];
    if (count < 2) ++count;
    here[static_cast<size_t>(slot)] = true;
  };
  const auto read_all = [&](const auto& self, const std::vector<Ref>& refs) -> void {
    for (const Ref& ref : refs) {
      if (ref.kind == Ref::Kind::slot) read(ref.slot);
      self(self, ref.items);
    }
  };
  for (const auto& step : trace.steps) {
    if (const auto* segment = std::get_if<Segment>(&step)) {
      for (const int32_t slot : segment->input_slots) read(slot);
    } else {
      read_all(read_all, std::get<EagerStep>(step).inputs);
      for (const EagerStep::Body& body : std::get<EagerStep>(step).bodies) read_all(read_all, body.captures);
    }
  }
  read_all(read_all, trace.outputs);
  trace.takes.resize(inputs);
  for (size_t i = 0; i < inputs; ++i)
    trace.takes[i] = here[i] && trace.readers[i] == 1 && !(trace.rest && trace.rest->reads[i]);
}

namespace {

std::string slot_text(const Trace& trace, int32_t slot) {
  const std::string& name = slot < 0 ? std::string() : trace.slot_names[static_cast<size_t>(slot)];
  return slot < 0 ? "-" : name.empty() ? str("%", slot) : name;
}

std::string ref_text(const Trace& trace, const Ref& ref) {
  switch (ref.kind) {
    case Ref::Kind::absent:
      return "-";
    case Ref::Kind::slot:
      return slot_text(trace, ref.slot);
    case Ref::Kind::constant:
      return str("constant ", describe(ref.constant));
    case Ref::Kind::sequence:
    case Ref::Kind::optional: {
      std::string text = ref.kind == Ref::Kind::sequence ? "sequence(" : "optional(";
      for (size_t i = 0; i < ref.items.size(); ++i) text += (i ? ", " : "") + ref_text(trace, ref.items[i]);
      return text + ")";
    }
    case Ref::Kind::texts:
      return str("strings(", ref_text(trace, ref.items[0]), ")");
    case Ref::Kind::stack:
      return str("the items of ", ref_text(trace, ref.items[0]));
  }
  return "";
}

std::string slots_text(const Trace& trace, const std::vector<int32_t>& slots) {
  std::string text;
  for (size_t i = 0; i < slots.size(); ++i) text += (i ? ", " : "") + slot_text(trace, slots[i]);
  return text.empty() ? "none" : text;
}

std::string indented(const std::string& text) {
  std::string out = "    ";
  for (size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] == '\n' && i + 1 < text.size()) out += "    ";
  }
  return out;
}

std::string source_text(const Trace& trace, const Symbol& symbol) {
  const SymbolSource& source = symbol.source;
  const auto slot = [&] { return slot_text(trace, source.index); };
  switch (source.kind) {
    case SymbolSource::Kind::input_extent:
      return str("extent ", source.axis, " of input ", slot());
    case SymbolSource::Kind::input_value:
      return str("element ", source.axis, " of input ", slot());
    case SymbolSource::Kind::data_dependent:
      if (source.axis == 1) return "a value that the run computes";
      return str("a count of the run, at most ", to_string(symbol.bound));
    case SymbolSource::Kind::break_extent:
      return str("extent ", source.axis, " of ", slot());
    case SymbolSource::Kind::break_value:
      return str("element ", source.axis, " of ", slot());
  }
  return "";
}

std::string fact_text(const Trace& trace, const Fact& fact) {
  return str(trace.scope->text(fact), "  (", fact.what, ")");
}

std::string segment_text(const Trace& trace, const Segment& segment, size_t number) {
  std::string text = str("segment ", number, ": ", segment.program->ops().size(), " ops\n");
  text += str("  reads ", slots_text(trace, segment.input_slots), "\n");
  text += str("  gives ", slots_text(trace, segment.output_slots), "\n");
  return text;
}

std::string eager_text(const Trace& trace, const EagerStep& eager) {
  std::string text = str("break: ", where(*eager.node), " runs eagerly: ", eager.reason, "\n");
  for (const Ref& ref : eager.inputs) text += str("  reads ", ref_text(trace, ref), "\n");
  for (const EagerStep::Body& body : eager.bodies)
    for (const Ref& ref : body.captures) text += str("  its ", body.attribute, " reads ", ref_text(trace, ref), "\n");
  text += str("  gives ", slots_text(trace, eager.output_slots), "\n");
  for (const EagerStep::Body& body : eager.bodies)
    for (const auto& inner : body.runner->traces()) text += str("  ", body.attribute, ":\n", indented(to_text(*inner)));
  return text;
}

bool holds(const Fact& fact, Bindings& bindings) {
  try {
    return bindings.evaluate_expr(fact.truth) == fact.expected;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void check_assertions(const Trace& trace, Bindings& bindings) try {
  bindings.check_assertions();
} catch (const Error&) {
  const ShapeScope& scope = *trace.scope;
  const auto is_set = [&](int32_t s) { return bindings.has(s); };
  for (const Fact& fact : scope.assertions()) {
    const std::vector<int32_t> symbols = scope.symbols_of(fact.truth);
    if (fact.region >= 0 || !std::all_of(symbols.begin(), symbols.end(), is_set) || holds(fact, bindings)) continue;
    std::string sizes;
    for (const int32_t s : symbols) {
      const Symbol& symbol = scope.symbols()[static_cast<size_t>(s)];
      sizes +=
          str(sizes.empty() ? "" : ", ", symbol.name, " is ", bindings.value(s), " (", source_text(trace, symbol), ")");
    }
    throw Error(ErrorCode::invalid_input, str(fact.what, ": ", scope.text(fact), " does not hold; ", sizes));
  }
  throw;
}

namespace {

// `heading`: "trace", or which of the continuations at a break.
std::string text_of(const Trace& trace, const std::string& heading) {
  // Other threads may be running it.
  const std::shared_ptr<ShapeScope> copy = copy_of(*trace.scope);
  const ShapeScope::Enter enter(copy);
  const ShapeScope& scope = *copy;
  const Trace::Before& before = trace.before;
  const auto own = [](const auto& list, size_t first) { return std::span(list).subspan(std::min(first, list.size())); };
  const auto symbols = own(scope.symbols(), before.symbols);
  const auto guards = own(scope.guards(), before.guards), assertions = own(scope.assertions(), before.assertions);
  const auto specializations = own(scope.specializations(), before.specializations);
  std::string text =
      str(heading, ": segments ", segments_of(trace), ", breaks ", trace.breaks, ", guards ", guards.size(),
          ", assertions ", assertions.size(), ", specialisations ", specializations.size(), "\n");
  for (const Symbol& symbol : symbols)
    if (symbol.source.kind != SymbolSource::Kind::data_dependent || symbol.source.axis != 2)
      text += str("symbol ", symbol.name, " = ", symbol.hint, ": ", source_text(trace, symbol), "\n");
  for (const Fact& fact : guards) text += str("guard ", fact_text(trace, fact), "\n");
  for (const Fact& fact : assertions) text += str("assertion ", fact_text(trace, fact), "\n");
  for (const std::string& what : specializations) text += str("specialisation ", what, "\n");
  for (const std::string& known : trace.known) text += str("known ", known, "\n");
  size_t number = before.segments;
  for (const auto& step : trace.steps) {
    if (const auto* segment = std::get_if<Segment>(&step)) {
      text += segment_text(trace, *segment, number++);
      if (!segment->ended_by.empty()) text += str("break: ", segment->ended_by, "\n");
    } else {
      text += eager_text(trace, std::get<EagerStep>(step));
    }
  }
  for (const Ref& ref : trace.outputs) text += str("output ", ref_text(trace, ref), "\n");
  if (!trace.rest) return text;
  const std::vector<std::shared_ptr<const Trace>> traces = trace.rest->traces.all();
  for (size_t i = 0; i < traces.size(); ++i)
    text += text_of(*traces[i], str("continuation ", i + 1, " of ", traces.size()));
  return text;
}

}  // namespace

std::string to_text(const Trace& trace) { return text_of(trace, "trace"); }

}  // namespace transmuter::runtime
