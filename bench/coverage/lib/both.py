"""One model in ONNX Runtime without optimizations, and in transmuter; every value inside given out."""
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from .cases import kind_of, read_value, write_value

# Dtypes that NumPy has no name for are looked at through a Cast.
SEEN_AS = {
    "bfloat16": TensorProto.FLOAT, "float8e4m3fn": TensorProto.FLOAT, "float8e4m3fnuz": TensorProto.FLOAT,
    "float8e5m2": TensorProto.FLOAT, "float8e5m2fnuz": TensorProto.FLOAT, "int4": TensorProto.INT8,
    "uint4": TensorProto.UINT8, "int2": TensorProto.INT8, "uint2": TensorProto.UINT8, "float4e2m1": TensorProto.FLOAT,
}


def session(model, optimized=False, threads=1):
    """Of a path or a ModelProto."""
    options = onnxruntime.SessionOptions()
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.log_severity_level = 4
    if isinstance(model, (str, pathlib.Path)):
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    data = model.SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def load(path):
    """A model without functions: they are written out, so that there is a node for everything."""
    model = onnx.load(str(path))
    return onnx.inliner.inline_local_functions(model) if model.functions else model


def node_label(node, position):
    return node.name or f"{node.op_type}_{position}"


def with_all_outputs(model):
    """A copy whose main graph gives out every value; {output: (position, node, value)} in the nodes' order."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    have = {o.name for o in out.graph.output}
    values = {}
    for position, node in enumerate(out.graph.node):
        for name in node.output:
            if name:
                values[name] = (position, node, name)
    for name in values:
        if name not in have:
            out.graph.output.append(onnx.ValueInfoProto(name=name))
    types = {o.name: o.type for o in session(out).get_outputs()}
    kept, rename = {}, {}
    for name, entry in values.items():
        inner = types[name].removeprefix("tensor(").removesuffix(")")
        if inner in SEEN_AS and name not in have:
            rename[name] = f"{name}/seen"
            out.graph.node.append(helper.make_node("Cast", [name], [rename[name]], to=SEEN_AS[inner]))
        kept[rename.get(name, name)] = entry
    for output in out.graph.output:
        output.name = rename.get(output.name, output.name)
    return out, kept


def run_ort(model, feeds, names=None):
    """{output: value}."""
    run = session(model)
    names = names or [o.name for o in run.get_outputs()]
    given = {i.name for i in run.get_inputs()}
    return dict(zip(names, run.run(names, {k: v for k, v in feeds.items() if k in given})))


class Failed(Exception):
    """transmuter gave an error; the text is its own."""


def run_ours(program, model, feeds, arguments=(), names=None):
    """{output: value} of `transmuter run`; values as ONNX Runtime gives them."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        path = model
        if not isinstance(model, (str, pathlib.Path)):
            path = folder / "model.onnx"
            onnx.save(model, str(path))
        else:
            model = onnx.load(str(path), load_external_data=False)
        data = folder / "data"
        data.mkdir()
        for position, (name, value) in enumerate(feeds.items()):
            if value is not None:
                write_value(data / f"input_{position}.pb", name, value)
        command = [str(program), "run", str(path), "--data-set", str(data), "-o", str(folder / "out"), *arguments]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            raise Failed(result.stderr.strip() or f"exit status {result.returncode}")
        kinds = {o.name: kind_of(o) for o in model.graph.output}
        values = {}
        for name in names or kinds:
            file = folder / "out" / name.replace("/", "_")
            tensor = file.with_name(file.name + ".npy")
            if tensor.exists():
                values[name] = np.load(tensor, allow_pickle=False)
                continue
            other = file.with_name(file.name + ".pb")
            for kind in dict.fromkeys((kinds.get(name, "tensor"), "sequence", "optional", "tensor")):
                try:
                    values[name] = read_value(other, kind)[1]
                    break
                except Exception:  # not of this kind
                    continue
        return values
