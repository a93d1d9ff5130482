"""Case folders: a model, inputs, and what ONNX Runtime without optimizations makes of them."""
import json
import pathlib
import shutil

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from . import both
from .cases import write_value
from .compare import typical_size


class Inexact(Exception):
    """This machine's ONNX Runtime rounds sums of bytes to 16 bits."""


def check_exact():
    """Sums of products of bytes saturate at 16 bits in ONNX Runtime on processors without VNNI: no references from there."""
    nodes = [helper.make_node("MatMulInteger", ["a", "b"], ["y"])]
    graph = helper.make_graph(nodes, "sums", [helper.make_tensor_value_info("a", TensorProto.UINT8, [1, 64])],
                              [helper.make_tensor_value_info("y", TensorProto.INT32, [1, 16])],
                              [numpy_helper.from_array(np.full((64, 16), 127, np.int8), "b")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    y = both.run_ort(model, {"a": np.full((1, 64), 255, np.uint8)})["y"]
    if not (y == 64 * 255 * 127).all():
        raise Inexact("ONNX Runtime's sums of bytes saturate on this processor (no VNNI): record on another")


def record(folder, model, sets, tolerance=(1e-3, 1e-4), **about):
    """Writes a case; returns its meta.  tolerance: rtol, and atol as a part of the largest output's typical size."""
    folder = pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    onnx.save(model, str(folder / "model.onnx"))
    run, fast = both.session(model), both.session(model, optimized=True)
    names = [o.name for o in run.get_outputs()]
    given = {i.name for i in run.get_inputs()}
    size, moved = 0.0, 0.0
    for i, feeds in enumerate(sets):
        feeds = {k: v for k, v in feeds.items() if k in given}
        data = folder / f"test_data_set_{i}"
        data.mkdir()
        for j, (name, value) in enumerate(feeds.items()):
            write_value(data / f"input_{j}.pb", name, value)
        values = run.run(names, feeds)
        for j, (name, value, other) in enumerate(zip(names, values, fast.run(names, feeds))):
            write_value(data / f"output_{j}.pb", name, value)
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size:
                size = max(size, typical_size(value))
                if value.shape == other.shape:
                    moved = max(moved, float(np.nanmax(np.abs(value.astype(np.float64) - other.astype(np.float64)), initial=0)))
    meta = {"rtol": tolerance[0], "atol": float(f"{tolerance[1] * max(size, 1e-3):.2g}"),
            "reference": f"onnxruntime {onnxruntime.__version__}, graph optimizations off",
            "moved_by_optimizations": float(f"{moved:.3g}"), **about}
    (folder / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")
    return meta
