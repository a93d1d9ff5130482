// What the standard says of an operator before any shape is known: in which opsets it exists, how many inputs and
// outputs it has, and its attributes. Checked when a model is loaded.
//
// A row's text lists versions, ";" between them: `9:rro/1-2 axis=i mode=s!` - since opset 9 two required inputs and an
// optional one (v: any number more, "-": none), one or two outputs ("*": any number), an integer attribute and a
// required string one. Kinds: f i s t g y p (float, integer, string, tensor, graph, type, sparse tensor), capital for a
// list. `10:removed`: no operator of the standard from then on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "onnx/graph.h"

namespace transmuter::ops {

struct SchemaRow {
  const char* domain;
  const char* name;
  const char* versions;
};
extern const SchemaRow kSchemas[];  // by domain, then name (schema_table.cc)
extern const size_t kSchemaCount;

// The element types of inputs, in rows of the same kind: `9:0 2 2` - since opset 9 the inputs have the sets 0, 2 and 2
// of kTypeSets (the last one those of all further inputs), a bit for each number of TensorProto.DataType; an empty set
// is of an input that is no tensor. `-`: no operator of the standard any more.
extern const uint32_t kTypeSets[];
extern const SchemaRow kSchemaTypes[];  // by domain, then name (schema_types.cc)
extern const size_t kSchemaTypesCount;

// Throws Error(invalid_model) with one sentence. Operators that the table lacks pass, and those that exporters write
// before the version that standardised them (the registry has them then).
void check_schema(const onnx::Node& node);
// The same of the inputs' element types, as a run or a trace has them; `invalid` stands for what is absent or no
// tensor.
void check_types(const onnx::Node& node, std::span<const DType> inputs);

}  // namespace transmuter::ops
