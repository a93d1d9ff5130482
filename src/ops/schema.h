// What the standard says of an operator before any shape is known: in which opsets it exists, how many inputs and
// outputs it has, and its attributes. Checked when a model is loaded.
//
// A row's text lists versions, ";" between them: `9:rro/1-2 axis=i mode=s!` - since opset 9 two required inputs and an
// optional one (v: any number more, "-": none), one or two outputs ("*": any number), an integer attribute and a
// required string one. Kinds: f i s t g y p (float, integer, string, tensor, graph, type, sparse tensor), capital for a
// list. `10:removed`: no operator of the standard from then on.
#pragma once

#include <cstddef>

#include "onnx/graph.h"

namespace transmuter::ops {

struct SchemaRow {
  const char* domain;
  const char* name;
  const char* versions;
};
extern const SchemaRow kSchemas[];  // by domain, then name (schema_table.cc)
extern const size_t kSchemaCount;

// Throws Error(invalid_model) with one sentence. Operators that the table lacks pass, and those that exporters write
// before the version that standardised them (the registry has them then).
void check_schema(const onnx::Node& node);

}  // namespace transmuter::ops
