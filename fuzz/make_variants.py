#!/usr/bin/env python3
"""Spoils the seeds of model_fuzz one thing at a time, everywhere: what random changes would reach by luck.

    make_variants.py SEEDS DEST [--seeds N]

For each set of operators with the same number of inputs, the first N seeds (make_seeds.py): each tensor in other ranks,
empty, and of other dtypes, each integer tensor with values out of range, each input left out, each attribute left out or
out of range; and some with several tensors in other forms. Files are named by their contents.
"""
import argparse
import collections
import hashlib
import pathlib
import random

import numpy as np
import onnx
from onnx import numpy_helper

RANDOM = random.Random(0)
FAR = [-(2**63), 2**63 - 1, 2**31, -1, 0, 3]
DTYPES = [np.float32, np.float64, np.float16, np.uint8, np.int8, np.int32, np.int64, np.bool_, np.complex64]


def shapes(value):
    """Arrays of about the same elements in every other form."""
    flat, dims = value.reshape(-1), value.shape
    if value.size:
        yield flat[:1].reshape(())
        yield flat[:1]
    yield flat
    yield flat[:0]
    yield value.reshape((1, *dims))
    yield value.reshape((*dims, 1))
    yield np.empty((0, *dims[1:]), value.dtype)
    yield np.empty((*dims[:-1], 0), value.dtype)
    if dims:
        yield value[:1]
        yield value[..., :1]
        yield np.concatenate([value, value[:1]])
        if dims[0]:
            yield value[0]
        if dims[-1]:
            yield value[..., 0]
    if len(dims) > 1:
        yield value.reshape((dims[0] * dims[1], *dims[2:]))
        yield np.swapaxes(value, 0, -1)


def values(value):
    yield from shapes(value)
    if value.dtype == object:
        return
    for dtype in DTYPES:
        if dtype != value.dtype:
            with np.errstate(all="ignore"):
                yield value.astype(np.complex64).real.astype(dtype)
    if value.dtype.kind in "iu" and value.size:
        info = np.iinfo(value.dtype)
        for far in FAR:
            if info.min <= far <= info.max:
                yield np.full_like(value, far)
                one = value.copy()
                one.reshape(-1)[-1] = far
                yield one


def attributes(attribute):
    kind = onnx.AttributeProto
    if attribute.type == kind.INT:
        for far in FAR:
            attribute.i = far
            yield
    elif attribute.type == kind.INTS:
        held = list(attribute.ints)
        for other in [[], held[:-1], held + held[-1:], *([far] * len(held) for far in FAR), *(held[:-1] + [far] for far in FAR)]:
            del attribute.ints[:]
            attribute.ints.extend(other)
            yield
    elif attribute.type == kind.FLOAT:
        for other in [0.0, -1.0, float("nan"), float("inf"), 1e-40]:
            attribute.f = other
            yield
    elif attribute.type == kind.FLOATS:
        held = list(attribute.floats)
        for other in [[], held[:-1], held + held[-1:], [0.0] * len(held), [float("nan")] * len(held)]:
            del attribute.floats[:]
            attribute.floats.extend(other)
            yield
    elif attribute.type == kind.STRING:
        for other in [b"", b"zz", b"\xff"]:
            attribute.s = other
            yield
    elif attribute.type == kind.STRINGS:
        held = list(attribute.strings)
        for other in [[], held[:-1], held + held[-1:], [b""] * len(held)]:
            del attribute.strings[:]
            attribute.strings.extend(other)
            yield


def put(graph, tensor, array):
    """The initializer with another value, the input of its name with its type; False where it can't be said."""
    try:
        made = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), tensor.name)
    except Exception:  # dtypes of ml_dtypes
        return False
    tensor.CopyFrom(made)
    for value in graph.input:
        if value.name == tensor.name:
            value.type.tensor_type.elem_type = made.data_type
            value.type.tensor_type.ClearField("shape")
    return True


def all_at_once(model):
    """Every tensor in the same other form, and some in any forms."""
    kept = model.graph.SerializeToString()
    for k in range(11):
        for tensor in model.graph.initializer:
            try:
                others = list(shapes(numpy_helper.to_array(tensor)))
            except Exception:
                continue
            if k < len(others):
                put(model.graph, tensor, others[k])
        yield
        model.graph.ParseFromString(kept)
    for _ in range(24):
        for tensor in model.graph.initializer:
            if RANDOM.random() < 0.5:
                continue
            try:
                others = list(shapes(numpy_helper.to_array(tensor)))
            except Exception:
                continue
            put(model.graph, tensor, RANDOM.choice(others))
        yield
        model.graph.ParseFromString(kept)


def variants(model):
    """The spoiled models, one after another in the same object."""
    yield from all_at_once(model)
    graph = model.graph
    for tensor in graph.initializer:
        original = onnx.TensorProto()
        original.CopyFrom(tensor)
        declared = [value for value in graph.input if value.name == tensor.name]
        types = [(value, onnx.TypeProto.FromString(value.type.SerializeToString())) for value in declared]
        try:
            array = numpy_helper.to_array(original)
        except Exception:
            continue
        for other in values(array):
            if put(graph, tensor, other):
                yield
        tensor.CopyFrom(original)
        for value, kept in types:
            value.type.CopyFrom(kept)
    for node in graph.node:
        inputs = list(node.input)
        for i in range(len(inputs)):
            node.input[i] = ""
            yield
            for j in range(min(len(inputs), 4)):
                node.input[i] = inputs[j]
                yield
            node.input[i] = inputs[i]
        for count in range(len(inputs)):
            del node.input[count:]
            yield
            node.input.extend(inputs[count:])
        node.input.append(inputs[0] if inputs else "")
        yield
        del node.input[-1]
        for i, attribute in enumerate(node.attribute):
            original = onnx.AttributeProto()
            original.CopyFrom(attribute)
            for _ in attributes(attribute):
                yield
            attribute.CopyFrom(original)
        for i in range(len(node.attribute)):
            kept = onnx.AttributeProto()
            kept.CopyFrom(node.attribute[i])
            del node.attribute[i]
            yield
            node.attribute.insert(i, kept)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", type=pathlib.Path)
    parser.add_argument("dest", type=pathlib.Path)
    parser.add_argument("--seeds", dest="most", type=int, default=2)
    arguments = parser.parse_args()
    arguments.dest.mkdir(parents=True, exist_ok=True)
    met = collections.Counter()
    for path in sorted(arguments.seeds.iterdir()):
        try:
            model = onnx.ModelProto.FromString(path.read_bytes())
        except Exception:
            continue
        if not model.graph.node or len(model.graph.node) > 8:
            continue
        kind = tuple((n.domain, n.op_type, len(n.input)) for n in model.graph.node)
        met[kind] += 1
        if met[kind] > arguments.most:
            continue
        for _ in variants(model):
            data = model.SerializeToString()
            (arguments.dest / hashlib.sha1(data).hexdigest()).write_bytes(data)


if __name__ == "__main__":
    main()
