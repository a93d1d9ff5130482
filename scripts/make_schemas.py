"""Writes src/ops/schema_table.cc: arity and attributes of every standard operator by opset version; with --types
src/ops/schema_types.cc: the element types of their inputs.

usage: make_schemas.py > src/ops/schema_table.cc     (needs the onnx package; run it when a new opset is supported)
       make_schemas.py --types > src/ops/schema_types.cc
"""
import re
import sys

import onnx.defs

KINDS = {"FLOAT": "f", "INT": "i", "STRING": "s", "TENSOR": "t", "GRAPH": "g", "FLOATS": "F", "INTS": "I",
         "STRINGS": "S", "TENSORS": "T", "GRAPHS": "G", "SPARSE_TENSOR": "p", "SPARSE_TENSORS": "P",
         "TYPE_PROTO": "y", "TYPE_PROTOS": "Y"}
OPTIONS = {"Single": "r", "Optional": "o", "Variadic": "v"}


def signature(schema):
    if schema.deprecated:
        return None
    inputs = "".join(OPTIONS[p.option.name] for p in schema.inputs)
    most = schema.max_output if schema.max_output < 2**31 - 1 else "*"
    attributes = [f"{name}={KINDS[a.type.name]}{'!' if a.required else ''}" for name, a in sorted(schema.attributes.items())]
    return " ".join([f"{inputs or '-'}/{schema.min_output}-{most}"] + attributes)


def versions(schemas):
    """One piece a version at which arity or attributes change; an operator that later left the standard says so."""
    pieces, last = [], ""
    for schema in sorted(schemas, key=lambda s: s.since_version):
        text = signature(schema)
        if text is None:
            if not pieces and len(schemas) > 1:  # superseded at once: the first version stays valid
                continue
            text = "removed"
        if text != last:
            pieces.append(f"{schema.since_version}:{text}")
        last = text
    return ";".join(pieces)


def literal(text, indent):
    """Adjacent literals that keep each line within 120 columns."""
    width = 120 - indent - 3
    parts = []
    while text:
        cut = text if len(text) <= width else text[: text.rfind(" ", 0, width) + 1] or text[:width]
        parts.append(f'"{cut}"')
        text = text[len(cut):]
    return ("\n" + " " * indent).join(parts)


NAMES = {"float": "FLOAT", "double": "DOUBLE", "bool": "BOOL", "string": "STRING"}


def element_types(schema, parameter):
    """A bit for each number of TensorProto.DataType that an input may hold as a tensor; 0 where it holds no tensors."""
    constraint = next((c for c in schema.type_constraints if c.type_param_str == parameter.type_str), None)
    mask = 0
    for text in constraint.allowed_type_strs if constraint else [parameter.type_str]:
        if found := re.fullmatch(r"tensor\((\w+)\)", text):
            mask |= 1 << getattr(onnx.TensorProto, NAMES.get(found[1], found[1].upper()))
    return mask


def print_types(schemas):
    sets, rows = {}, []
    for (domain, name), group in sorted(schemas.items()):
        pieces, last = [], None
        for schema in sorted(group, key=lambda s: s.since_version):
            text = "-" if schema.deprecated else " ".join(
                str(sets.setdefault(element_types(schema, p), len(sets))) for p in schema.inputs)
            if text != last:
                pieces.append(f"{schema.since_version}:{text}")
            last = text
        rows.append((domain, name, ";".join(pieces)))
    print("// Made by scripts/make_schemas.py --types from the ONNX schemas: see schema.h for the notation. Not for editing.")
    print('#include "ops/schema.h"\n\nnamespace transmuter::ops {\n\n// clang-format off')
    print("const uint32_t kTypeSets[] = {")
    for mask in sets:
        print(f"  {mask:#010x},")
    print("};\nconst SchemaRow kSchemaTypes[] = {")
    for domain, name, text in rows:
        print(f'  {{"{domain}", "{name}",\n   {literal(text, 3)}}},')
    print("};\n// clang-format on\nconst size_t kSchemaTypesCount = sizeof(kSchemaTypes) / sizeof(kSchemaTypes[0]);\n")
    print("}  // namespace transmuter::ops")


def main():
    schemas = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain in ("", "ai.onnx.ml"):
            schemas.setdefault((schema.domain, schema.name), []).append(schema)
    if "--types" in sys.argv[1:]:
        return print_types(schemas)
    print("// Made by scripts/make_schemas.py from the ONNX schemas: see schema.h for the notation. Not for editing.")
    print('#include "ops/schema.h"\n\nnamespace transmuter::ops {\n\n// clang-format off')
    print("const SchemaRow kSchemas[] = {")
    for (domain, name), group in sorted(schemas.items()):
        text = versions(group)
        if text:
            print(f'  {{"{domain}", "{name}",\n   {literal(text, 3)}}},')
    print("};\n// clang-format on\nconst size_t kSchemaCount = sizeof(kSchemas) / sizeof(kSchemas[0]);\n")
    print("}  // namespace transmuter::ops")


main()
