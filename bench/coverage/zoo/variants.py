"""The precisions in which a model is stored: what converters and quantizers make of an f32 export."""
import pathlib
import tempfile

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, HALF = TensorProto.FLOAT, TensorProto.FLOAT16
HALF_MAX = float(np.finfo(np.float16).max)
# Inputs that stay f32 whatever the model computes in.
STAYS = {"Resize": {1, 2}}


def as_half(tensor):
    array = np.clip(numpy_helper.to_array(tensor), -HALF_MAX, HALF_MAX).astype(np.float16)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def halve_graph(graph):
    stays = {node.input[i] for node in graph.node for i in STAYS.get(node.op_type, ()) if i < len(node.input)}
    for tensor in graph.initializer:
        if tensor.data_type == FLOAT and tensor.name not in stays:
            as_half(tensor)
    for info in list(graph.input) + list(graph.output) + list(graph.value_info):
        if info.type.tensor_type.elem_type == FLOAT:
            info.type.tensor_type.elem_type = HALF
    for node in graph.node:
        for a in node.attribute:
            if a.HasField("g"):
                halve_graph(a.g)
            elif a.HasField("t") and a.t.data_type == FLOAT and not (set(node.output) & stays):
                as_half(a.t)
            elif node.op_type == "Cast" and a.name == "to" and a.i == FLOAT:
                a.i = HALF
        if node.op_type == "ConstantOfShape" and not node.attribute:
            node.attribute.append(helper.make_attribute("value", helper.make_tensor("", HALF, [1], [0.0])))


def f16(model):
    """Everything in halves but the model's inputs and outputs ("keep_io_types")."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    graph = out.graph
    inputs = [i.name for i in graph.input if i.type.tensor_type.elem_type == FLOAT]
    outputs = [o.name for o in graph.output if o.type.tensor_type.elem_type == FLOAT]
    halve_graph(graph)
    names = {n: f"{n}_half" for n in inputs + outputs}

    def rename(nodes):
        for node in nodes:
            for field in (node.input, node.output):
                for i, name in enumerate(field):
                    field[i] = names.get(name, name)
            for a in node.attribute:
                if a.HasField("g"):
                    rename(a.g.node)

    rename(graph.node)
    before = [helper.make_node("Cast", [n], [names[n]], name=f"{n}_to_half", to=HALF) for n in inputs]
    after = [helper.make_node("Cast", [names[n]], [n], name=f"{n}_to_float", to=FLOAT) for n in outputs]
    nodes = before + list(graph.node) + after
    del graph.node[:]
    graph.node.extend(nodes)
    for info in list(graph.input) + list(graph.output):
        if info.name in names:
            info.type.tensor_type.elem_type = FLOAT
    return out


def stored_as(model, dtype, scaled):
    """Weights of 256 elements and more in a narrow float type, widened where they are read."""
    out = onnx.version_converter.convert_version(model, 21)
    nodes, tensors = [], []
    for tensor in out.graph.initializer:
        array = numpy_helper.to_array(tensor) if tensor.data_type == FLOAT else np.zeros(0)
        if array.size < 256:
            tensors.append(tensor)
            continue
        stored = f"{tensor.name}_stored"
        if scaled:
            scale = np.float32(np.abs(array).max() / float(ml_dtypes.finfo(dtype).max))
            tensors.append(numpy_helper.from_array(np.array(scale), f"{tensor.name}_scale"))
            tensors.append(numpy_helper.from_array((array / scale).astype(dtype), stored))
            nodes.append(helper.make_node("DequantizeLinear", [stored, f"{tensor.name}_scale"], [tensor.name],
                                          name=f"{tensor.name}_dequantize"))
        else:
            tensors.append(numpy_helper.from_array(array.astype(dtype), stored))
            nodes.append(helper.make_node("Cast", [stored], [tensor.name], name=f"{tensor.name}_widen", to=FLOAT))
    rest = list(out.graph.node)
    del out.graph.node[:], out.graph.initializer[:]
    out.graph.node.extend(nodes + rest)
    out.graph.initializer.extend(tensors)
    return out


def through_files(model, work):
    with tempfile.TemporaryDirectory() as folder:
        source, target = pathlib.Path(folder) / "in.onnx", pathlib.Path(folder) / "out.onnx"
        onnx.save(model, str(source))
        work(str(source), str(target))
        return onnx.load(str(target))


def dynamic(model, weight_type):
    from onnxruntime.quantization import QuantType, quantize_dynamic

    return through_files(model, lambda a, b: quantize_dynamic(a, b, weight_type=QuantType[weight_type]))


def static(model, feeds, per_channel=False, operators=False, activation="QUInt8", weight="QInt8"):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = iter(feeds)

        def get_next(self):
            return next(self.left, None)

    style = QuantFormat.QOperator if operators else QuantFormat.QDQ
    return through_files(model, lambda a, b: quantize_static(
        a, b, Reader(), quant_format=style, per_channel=per_channel, activation_type=QuantType[activation],
        weight_type=QuantType[weight]))


def nbits(model, bits, symmetric=True, block=32):
    """MatMul with a fixed matrix becomes MatMulNBits: blocks of a column share a scale and a zero point."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    fixed = {t.name: t for t in out.graph.initializer}
    for node in out.graph.node:
        tensor = fixed.get(node.input[1]) if node.op_type == "MatMul" else None
        if tensor is None or len(tensor.dims) != 2 or tensor.dims[0] < block:
            continue
        w = numpy_helper.to_array(tensor)
        k, n = w.shape
        blocks, top = -(-k // block), 2**bits - 1
        rows = np.zeros((n, blocks * block), np.float32)
        rows[:, :k] = w.T
        rows = rows.reshape(n, blocks, block)
        if symmetric:
            scales = np.maximum(np.abs(rows).max(2), 1e-8) / (2 ** (bits - 1) - 1)
            zeros = np.full((n, blocks), 2 ** (bits - 1), np.float32)
        else:
            low, high = np.minimum(rows.min(2), 0), np.maximum(rows.max(2), 0)
            scales = np.maximum(high - low, 1e-8) / top
            zeros = np.clip(np.rint(-low / scales), 0, top)
        codes = np.clip(np.rint(rows / scales[..., None]) + zeros[..., None], 0, top).astype(np.uint8)
        pack = (lambda c: c[..., 0::2] | c[..., 1::2] << 4) if bits == 4 else (lambda c: c)
        name = tensor.name
        added = [numpy_helper.from_array(pack(codes), f"{name}_Q{bits}"),
                 numpy_helper.from_array(scales.astype(np.float32), f"{name}_scales")]
        if not symmetric:
            even = np.zeros((n, blocks + blocks % 2), np.uint8)
            even[:, :blocks] = zeros
            added.append(numpy_helper.from_array(pack(even) if bits == 4 else zeros.astype(np.uint8), f"{name}_zero_points"))
        known = {t.name for t in out.graph.initializer}
        out.graph.initializer.extend(t for t in added if t.name not in known)
        node.CopyFrom(helper.make_node("MatMulNBits", [node.input[0], *(t.name for t in added)], list(node.output),
                                       name=f"{node.name}_Q{bits}", domain="com.microsoft", K=k, N=n, bits=bits,
                                       block_size=block))
    read = {i for node in out.graph.node for i in node.input}
    kept = [t for t in out.graph.initializer if t.name in read]
    del out.graph.initializer[:]
    out.graph.initializer.extend(kept)
    if not any(o.domain == "com.microsoft" for o in out.opset_import):
        out.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return out


def bnb4(model, kind):
    from onnxruntime.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    quantizer = MatMulBnb4Quantizer(copy, kind, 64)
    quantizer.process()
    return quantizer.model.model


# Each: (what makes it of the model and its data sets, (rtol, atol as a part of the output's size)).  A rounding tie may move
# an activation of eight bits by one step.
VARIANTS = {
    "f16": (lambda m, feeds: f16(m), (2e-2, 1e-2)),
    "bf16": (lambda m, feeds: stored_as(m, ml_dtypes.bfloat16, False), (1e-3, 1e-4)),
    "f8": (lambda m, feeds: stored_as(m, ml_dtypes.float8_e4m3fn, True), (1e-3, 1e-4)),
    "dynamic_u8": (lambda m, feeds: dynamic(m, "QUInt8"), (3e-2, 3e-2)),
    "dynamic_s8": (lambda m, feeds: dynamic(m, "QInt8"), (3e-2, 3e-2)),
    "qdq_u8s8": (lambda m, feeds: static(m, feeds), (3e-2, 3e-2)),
    "qdq_pc": (lambda m, feeds: static(m, feeds, per_channel=True, activation="QInt8"), (3e-2, 3e-2)),
    "qoperator": (lambda m, feeds: static(m, feeds, operators=True, weight="QUInt8"), (3e-2, 3e-2)),
    "q4": (lambda m, feeds: nbits(m, 4, symmetric=False), (1e-3, 2e-4)),
    "q4f16": (lambda m, feeds: f16(nbits(m, 4)), (2e-2, 1e-2)),
    "q8": (lambda m, feeds: nbits(m, 8), (1e-3, 2e-4)),
    "bnb4_nf4": (lambda m, feeds: bnb4(m, 1), (1e-3, 2e-4)),
    "bnb4_fp4": (lambda m, feeds: bnb4(m, 0), (1e-3, 2e-4)),
}
