"""In which precision a model stores and computes, told from its graph."""
import collections

import onnx
from onnx import TensorProto

HALVES = {TensorProto.FLOAT16: "f16", TensorProto.BFLOAT16: "bf16"}
EIGHTS = {TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2FNUZ}
INTEGERS = {TensorProto.UINT8: "u8", TensorProto.INT8: "s8", TensorProto.UINT16: "u16", TensorProto.INT16: "s16",
            TensorProto.UINT4: "u4", TensorProto.INT4: "s4"}


def graphs(graph):
    yield graph
    for node in graph.node:
        for a in node.attribute:
            for inner in [a.g] if a.HasField("g") else a.graphs:
                yield from graphs(inner)


def tensors(graph):
    yield from graph.initializer
    for node in graph.node:
        if node.op_type == "Constant":
            yield from (a.t for a in node.attribute if a.HasField("t"))


def precision(model):
    """"f32", "f16", "bf16", "int8 dynamic", "int8 QDQ", "int8 QOperator", "q4", "q4f16", "bnb4", "f8", ... of a ModelProto."""
    elements, operators, bits, types = collections.Counter(), set(), set(), {}
    inside = [g for part in [model.graph] for g in graphs(part)] + [f for f in model.functions]
    for graph in inside:
        for tensor in tensors(graph) if isinstance(graph, onnx.GraphProto) else ():
            count = 1
            for extent in tensor.dims:
                count *= extent
            elements[tensor.data_type] += count
            types[tensor.name] = tensor.data_type
        for node in graph.node:
            operators.add(node.op_type)
            if node.op_type == "Constant" and node.output:
                types.update({node.output[0]: a.t.data_type for a in node.attribute if a.HasField("t")})
            if node.op_type in ("MatMulNBits", "GatherBlockQuantized", "QMoE"):
                found = next((a.i for a in node.attribute if a.name in ("bits", "expert_weight_bits")), 4)
                bits.add(found)
    half = next((name for dtype, name in HALVES.items()
                 if elements[dtype] > elements[TensorProto.FLOAT]), "")
    if "MatMulBnb4" in operators:
        return "bnb4" + half
    if "MatMulNBits" in operators or "QMoE" in operators:
        return f"q{min(bits)}{half}"
    points = {types.get(n.input[2]) for g in inside for n in g.node
              if n.op_type in ("DequantizeLinear", "QuantizeLinear") and len(n.input) > 2 and n.input[2]}
    stored = {types.get(n.input[0]) for g in inside for n in g.node if n.op_type == "DequantizeLinear"}
    if points & EIGHTS or stored & EIGHTS:
        return "f8"
    if "MatMulInteger" in operators or "ConvInteger" in operators or "DynamicQuantizeMatMul" in operators:
        return "int8 dynamic"
    if any(o.startswith(("QLinearConv", "QLinearMatMul", "QGemm")) for o in operators):
        return "int8 QOperator"
    if "QuantizeLinear" in operators or "DequantizeLinear" in operators:
        kinds = {INTEGERS[t] for t in points | stored if t in INTEGERS}
        wide = "int4" if kinds & {"u4", "s4"} else "int16" if kinds & {"u16", "s16"} else "int8"
        return f"{wide} QDQ"
    return half or "f32"
