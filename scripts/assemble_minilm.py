#!/usr/bin/env python3
"""Puts the weights of all-MiniLM-L6-v2 (safetensors) into the graph that torch's exporter writes for them.

    assemble_minilm.py MODEL.safetensors MODEL.onnx

BERT with 6 layers, 384 wide, 12 heads. Inputs input_ids, attention_mask, token_type_ids, int64 [batch, sequence]; output
last_hidden_state, f32 [batch, sequence, 384]. The graph is the decomposed one that real exports hold (layer norm and GELU
spelled out, head splits by Shape → Gather → Concat → Reshape), so that it exercises what a downloaded model does.
"""
import json
import math
import struct
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, WIDTH, HEADS, EPSILON, OPSET = 6, 384, 12, 1e-12, 14


def read_safetensors(path):
    """{name: array} of a file of f32 and i64 tensors: a length, a JSON header, then the bytes."""
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    dtypes = {"F32": "<f4", "I64": "<i8"}
    return {
        name: np.frombuffer(data[slice(*info["data_offsets"])], dtypes[info["dtype"]]).reshape(info["shape"])
        for name, info in header.items()
        if name != "__metadata__"
    }


class Exporter:
    """Collects nodes and initializers, named by the module path as torch does."""

    def __init__(self, weights):
        self.weights = weights
        self.nodes, self.initializers, self.used = [], [], {}

    def op(self, scope, op_type, *inputs, **attributes):
        name = f"{scope}/{op_type}"
        count = self.used.get(name, 0)
        self.used[name] = count + 1
        if count:
            name += f"_{count}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name + "_output_0"], name, **attributes))
        return name + "_output_0"

    def constant(self, scope, value, dtype=np.float32):
        return self.op(scope, "Constant", value=numpy_helper.from_array(np.array(value, dtype)))

    def weight(self, name, transposed=False):
        if not any(i.name == name for i in self.initializers):
            array = self.weights[name]
            self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array.T) if transposed else array, name))
        return name

    def linear(self, scope, module, x):
        product = self.op(scope, "MatMul", x, self.weight(module + ".weight", transposed=True))
        return self.op(scope, "Add", self.weight(module + ".bias"), product)

    def layer_norm(self, scope, module, x):
        centred = self.op(scope, "Sub", x, self.op(scope, "ReduceMean", x, axes=[-1]))
        squared = self.op(scope, "Pow", centred, self.constant(scope, 2))
        variance = self.op(scope, "ReduceMean", squared, axes=[-1])
        deviation = self.op(scope, "Sqrt", self.op(scope, "Add", variance, self.constant(scope, EPSILON)))
        scaled = self.op(scope, "Mul", self.op(scope, "Div", centred, deviation), self.weight(module + ".weight"))
        return self.op(scope, "Add", scaled, self.weight(module + ".bias"))

    def gelu(self, scope, x):
        erf = self.op(scope, "Erf", self.op(scope, "Div", x, self.constant(scope, math.sqrt(2))))
        product = self.op(scope, "Mul", x, self.op(scope, "Add", erf, self.constant(scope, 1)))
        return self.op(scope, "Mul", product, self.constant(scope, 0.5))

    def extent(self, scope, x, axis):
        """x.size(axis) as a tensor of one element."""
        size = self.op(scope, "Gather", self.op(scope, "Shape", x), self.constant(scope, axis, np.int64), axis=0)
        return self.op(scope, "Unsqueeze", size, self.constant(scope, [0], np.int64))

    def reshape(self, scope, x, *tail):
        """x.view(batch, sequence, *tail)"""
        sizes = [self.extent(scope, x, 0), self.extent(scope, x, 1)]
        sizes += [self.constant(scope, [size], np.int64) for size in tail]
        return self.op(scope, "Reshape", x, self.op(scope, "Concat", *sizes, axis=0))


def embeddings(g):
    scope, module = "/embeddings", "embeddings."
    length = g.extent(scope, "input_ids", 1)
    start, axes, step = (g.constant(scope, [v], np.int64) for v in (0, 1, 1))
    positions = g.op(scope, "Slice", g.weight(module + "position_ids"), start, length, axes, step)
    words = g.op(scope + "/word_embeddings", "Gather", g.weight(module + "word_embeddings.weight"), "input_ids")
    types = g.op(scope + "/token_type_embeddings", "Gather", g.weight(module + "token_type_embeddings.weight"),
                 "token_type_ids")
    places = g.op(scope + "/position_embeddings", "Gather", g.weight(module + "position_embeddings.weight"), positions)
    return g.layer_norm(scope + "/LayerNorm", module + "LayerNorm", g.op(scope, "Add", g.op(scope, "Add", words, types), places))


def additive_mask(g):
    """0 where attention_mask is 1, the lowest float where it is 0; [batch, 1, 1, sequence]."""
    mask = "attention_mask"
    for axis in (1, 2):
        mask = g.op("", "Unsqueeze", mask, g.constant("", [axis], np.int64))
    inverted = g.op("", "Sub", g.constant("", 1), g.op("", "Cast", mask, to=TensorProto.FLOAT))
    return g.op("", "Mul", inverted, g.constant("", np.finfo(np.float32).min))


def attention(g, scope, module, x, mask):
    inner, head = scope + "/self", WIDTH // HEADS

    def heads(name, permutation):
        projected = g.linear(f"{inner}/{name}", f"{module}.self.{name}", x)
        return g.op(inner, "Transpose", g.reshape(inner, projected, HEADS, head), perm=permutation)

    key, value, query = heads("key", [0, 2, 3, 1]), heads("value", [0, 2, 1, 3]), heads("query", [0, 2, 1, 3])
    scores = g.op(inner, "Div", g.op(inner, "MatMul", query, key), g.constant(inner, math.sqrt(head)))
    weights = g.op(inner, "Softmax", g.op(inner, "Add", scores, mask), axis=-1)
    context = g.op(inner, "Transpose", g.op(inner, "MatMul", weights, value), perm=[0, 2, 1, 3])
    output = g.linear(scope + "/output/dense", module + ".output.dense", g.reshape(inner, context, WIDTH))
    return g.layer_norm(scope + "/output/LayerNorm", module + ".output.LayerNorm", g.op(scope + "/output", "Add", output, x))


def layer(g, index, x, mask):
    scope, module = f"/encoder/layer.{index}", f"encoder.layer.{index}"
    x = attention(g, scope + "/attention", module + ".attention", x, mask)
    hidden = g.linear(scope + "/intermediate/dense", module + ".intermediate.dense", x)
    hidden = g.gelu(scope + "/intermediate/intermediate_act_fn", hidden)
    output = g.linear(scope + "/output/dense", module + ".output.dense", hidden)
    return g.layer_norm(scope + "/output/LayerNorm", module + ".output.LayerNorm", g.op(scope + "/output", "Add", output, x))


def assemble(source, target):
    g = Exporter(read_safetensors(source))
    mask = additive_mask(g)
    x = embeddings(g)
    for index in range(LAYERS):
        x = layer(g, index, x, mask)
    g.nodes[-1].output[0] = "last_hidden_state"
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
              for name in ("input_ids", "attention_mask", "token_type_ids")]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", WIDTH])
    graph = helper.make_graph(g.nodes, "main_graph", inputs, [output], g.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=7,
                              producer_name="transmuter assemble_minilm")
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, target)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    assemble(sys.argv[1], sys.argv[2])
