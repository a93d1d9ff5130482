#!/usr/bin/env python3
"""Runs the commands of a guide: check_guides.py PROGRAM GUIDE.md WORK. Every ```sh block runs in a folder with the
small models that the guides speak of; the first command that fails ends it. A ```text block right behind is what it
prints."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def small_model():
    """x [unk__0, 3] -> MatMul, Relu -> hidden -> Softmax; scores > threshold -> keep; an If on the scores."""
    def branch(name, op, output):
        return helper.make_graph([helper.make_node(op, ["hidden"], [output])], name, [],
                                 [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)])
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["product"], name="product"),
        helper.make_node("Relu", ["product"], ["hidden"], name="activation"),
        helper.make_node("Softmax", ["hidden"], ["y"], name="probabilities", axis=-1),
        helper.make_node("Greater", ["scores", "threshold"], ["keep"], name="compare"),
        helper.make_node("ReduceMax", ["scores"], ["top"], name="top", keepdims=0),
        helper.make_node("Greater", ["top", "threshold"], ["any"], name="compare_top"),
        helper.make_node("If", ["any"], ["z"], name="choose", then_branch=branch("then", "Neg", "negated"),
                         else_branch=branch("else", "Abs", "absolute")),
    ]
    weight = np.arange(12, dtype=np.float32).reshape(3, 4) / 8
    graph = helper.make_graph(
        nodes, "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["unk__0", 3]),
         helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["unk__0"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["unk__0", 4]),
         helper.make_tensor_value_info("keep", TensorProto.BOOL, ["unk__0"]),
         helper.make_tensor_value_info("z", TensorProto.FLOAT, ["unk__0", 4])],
        [numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(np.float32(0.5), "threshold")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def main():
    program, guide, work = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    onnx.save(small_model(), work / "model.onnx")
    for name in ("tiny_chat", "tiny_embedder", "tiny_translator", "text_tasks"):
        shutil.copytree(pathlib.Path(__file__).parent / "data" / name, work / name)
    blocks = re.findall(r"^```sh\n(.*?)^```(?:\n```text\n(.*?)^```)?", guide.read_text(), re.MULTILINE | re.DOTALL)
    if not blocks:
        sys.exit(f"{guide} has no commands")
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    for block, printed in blocks:
        result = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=work, env=environment, text=True,
                                capture_output=True)
        if result.returncode:
            sys.exit(f"{guide.name}: these commands fail:\n{block}\n{result.stdout}{result.stderr}")
        if printed and result.stdout != printed:
            sys.exit(f"{guide.name}: these commands\n{block}\nprint\n{result.stdout}\ninstead of\n{printed}")
    for path in sorted(work.glob("*.onnx")):
        # Inference first: an output that was inside before has no shape yet.
        onnx.checker.check_model(onnx.shape_inference.infer_shapes(onnx.load(path), check_type=True, strict_mode=True))
        inspected = subprocess.run([program, "inspect", path], capture_output=True, text=True)
        if inspected.returncode:
            sys.exit(f"{path.name}: {inspected.stderr}")
    shutil.rmtree(work)
    print(f"{guide.name}: {len(blocks)} blocks run")


if __name__ == "__main__":
    main()
