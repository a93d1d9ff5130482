#include "ir/passes/attribute_record.h"
#include "ir/primitive.h"
#include "ir/print.h"

namespace transmuter::ir {

namespace {

std::string names(const std::vector<Value>& values) {
  std::string out;
  for (size_t i = 0; i < values.size(); ++i) out += str(i ? ", %" : "%", values[i].id);
  return out;
}

void append_program(std::string& out, const Program& program, const std::string& indent) {
  for (const Parameter& parameter : program.parameters())
    out += str(indent, "%", parameter.value.id, " = ",
               parameter.kind == Parameter::Kind::input ? "input"
               : parameter.trainable                    ? "trainable weight"
                                                        : "weight",
               " \"", parameter.name, "\" : ", to_string(program.type(parameter.value)), "\n");
  for (const Op& op : program.ops()) {
    out += str(indent, names(op.results), " = ", op.primitive->name, "(", names(op.operands), ")",
               attribute_text(op.attributes.get()), " :");
    for (size_t i = 0; i < op.results.size(); ++i) out += str(i ? ", " : " ", to_string(program.type(op.results[i])));
    if (op.location >= 0) out += str("  # ", program.locations()[static_cast<size_t>(op.location)]);
    out += '\n';
    for (const ProgramPtr& region : op.regions) {
      out += indent + "  {\n";
      append_program(out, *region, indent + "    ");
      out += indent + "  }\n";
    }
  }
  out += str(indent, "return ", names(program.results()), "\n");
}

}  // namespace

std::string to_text(const Program& program) {
  std::string out;
  append_program(out, program, "");
  return out;
}

}  // namespace transmuter::ir
