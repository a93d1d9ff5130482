#!/usr/bin/env python3
"""Tests of the coverage scripts: faults are planted on transmuter's side and have to be named.

    check_coverage.py PROGRAM FOLDER        FOLDER: for what the tests write; last line "N passed, N failed"
"""
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))

from lib import both  # noqa: E402
from lib.cases import write_value  # noqa: E402
from lib.unfold import unfold  # noqa: E402

PROGRAM, FOLDER = map(pathlib.Path, sys.argv[1:3])

# Stands in for transmuter: nodes whose name ends in FAULT compute another operator; with FEW only in models that give out
# no more than so many values, as a fault of fused steps would.
PLANTED = """#!{python}
import os, subprocess, sys, tempfile
import onnx
def plant(graph):
    for node in graph.node:
        if node.name.endswith({fault!r}):
            node.op_type = {operator!r}
            del node.attribute[:]
        for a in node.attribute:
            if a.HasField("g"):
                plant(a.g)
words = sys.argv[1:]
model = onnx.load(words[1])
if len(model.graph.output) <= {few}:
    plant(model.graph)
with tempfile.TemporaryDirectory() as folder:
    onnx.save(model, folder + "/model.onnx")
    sys.exit(subprocess.run([{program!r}, words[0], folder + "/model.onnx", *words[2:]]).returncode)
"""


def planted(name, fault, operator, few=10**6):
    path = FOLDER / name
    path.write_text(PLANTED.format(python=sys.executable, fault=fault, operator=operator, few=few,
                                   program=str(PROGRAM.resolve())))
    path.chmod(0o755)
    return path


def write_case(name, nodes, inputs, outputs, sets, constants=(), opset=18, graph_options=None):
    folder = FOLDER / name
    folder.mkdir(exist_ok=True)
    graph = helper.make_graph(nodes, name, inputs, outputs,
                              [numpy_helper.from_array(v, k) for k, v in dict(constants).items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    onnx.save(model, str(folder / "model.onnx"))
    for i, feeds in enumerate(sets):
        data = folder / f"test_data_set_{i}"
        data.mkdir(exist_ok=True)
        for j, (key, value) in enumerate(feeds.items()):
            write_value(data / f"input_{j}.pb", key, value)
    return folder


def find(program, *words):
    """The JSON objects that find_divergence prints, and its exit status."""
    result = subprocess.run([sys.executable, str(HERE / "find_divergence.py"), str(program), "--json", *map(str, words)],
                            capture_output=True, text=True)
    return [json.loads(line) for line in result.stdout.splitlines()], result.returncode, result.stderr


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def info(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def chain(dtype=TensorProto.FLOAT):
    """x -> MatMul -> Add -> Tanh -> Mul -> y."""
    wide = np.float16 if dtype == TensorProto.FLOAT16 else np.float32
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], name="/first/MatMul"),
             helper.make_node("Add", ["a", "b"], ["c"], name="/first/Add"),
             helper.make_node("Tanh", ["c"], ["d"], name="/second/Tanh"),
             helper.make_node("Mul", ["d", "d"], ["y"], name="/second/Mul")]
    constants = {"w": floats(8, 8, seed=1).astype(wide), "b": floats(8, seed=2).astype(wide)}
    sets = [{"x": floats(n, 8, seed=n).astype(wide)} for n in (3, 5)]
    return nodes, [info("x", dtype, ["n", 8])], [info("y", dtype, ["n", 8])], sets, constants


class Divergence(unittest.TestCase):
    def test_agrees_on_every_data_set(self):
        found, status, _ = find(PROGRAM, write_case("agrees", *chain()))
        self.assertEqual((status, [f["first"] for f in found]), (0, [None, None]))

    def test_names_the_node_at_fault(self):
        case = write_case("planted", *chain())
        found, status, _ = find(planted("sigmoid", "/second/Tanh", "Sigmoid"), case)
        self.assertEqual(status, 1)
        for one in found:
            self.assertEqual(one["first"]["node"], "/second/Tanh")
            self.assertIn("expected", one["first"]["alone"])
            self.assertEqual(one["differing"], 2)

    def test_halves(self):
        case = write_case("halves", *chain(TensorProto.FLOAT16))
        self.assertEqual(find(PROGRAM, case)[1], 0)
        found, _, _ = find(planted("minus", "/first/Add", "Sub"), case)
        self.assertEqual(found[0]["first"]["node"], "/first/Add")

    def test_a_fault_of_fused_steps(self):
        case = write_case("fused", *chain())
        found, status, _ = find(planted("fused_sigmoid", "/second/Tanh", "Sigmoid", few=2), case)
        self.assertEqual((status, found[0]["first"]["node"]), (1, "/second/Tanh"))

    def test_inside_the_branch_that_is_taken(self):
        branches = {}
        for name, op in (("then", "Exp"), ("else", "Abs")):
            nodes = [helper.make_node(op, ["x"], ["inner"], name=f"/{name}/{op}"),
                     helper.make_node("Add", ["inner", "x"], [f"{name}_out"], name=f"/{name}/Add")]
            branches[f"{name}_branch"] = helper.make_graph(nodes, name, [], [info(f"{name}_out", TensorProto.FLOAT, ["n"])])
        nodes = [helper.make_node("If", ["flag"], ["z"], name="choose", **branches),
                 helper.make_node("Neg", ["z"], ["y"], name="/Neg")]
        inputs = [info("x", TensorProto.FLOAT, ["n"]), info("flag", TensorProto.BOOL, [])]
        sets = [{"x": floats(4), "flag": np.array(flag)} for flag in (True, False)]
        case = write_case("branches", nodes, inputs, [info("y", TensorProto.FLOAT, ["n"])], sets)
        found, _, _ = find(planted("branch", "/else/Add", "Sub"), case)
        self.assertIsNone(found[0]["first"])
        self.assertEqual(found[1]["first"]["node"], "choose.else_branch//else/Add")

    def test_inside_a_trip(self):
        body = helper.make_graph(
            [helper.make_node("Identity", ["going"], ["goes_on"], name="keep"),
             helper.make_node("Add", ["sum", "x"], ["more"], name="grow"),
             helper.make_node("Tanh", ["more"], ["bent"], name="bend"),
             helper.make_node("Mul", ["bent", "bent"], ["row"], name="square")], "body",
            [info("i", TensorProto.INT64, []), info("going", TensorProto.BOOL, []), info("sum", TensorProto.FLOAT, ["n"])],
            [info("goes_on", TensorProto.BOOL, []), info("bent", TensorProto.FLOAT, ["n"]),
             info("row", TensorProto.FLOAT, ["n"])])
        nodes = [helper.make_node("Loop", ["count", "", "x"], ["last", "rows"], name="turns", body=body)]
        inputs = [info("x", TensorProto.FLOAT, ["n"]), info("count", TensorProto.INT64, [])]
        outputs = [info("last", TensorProto.FLOAT, ["n"]), info("rows", TensorProto.FLOAT, ["t", "n"])]
        sets = [{"x": floats(4), "count": np.array(3)}]
        case = write_case("loop", nodes, inputs, outputs, sets)
        model = both.load(case / "model.onnx")
        for name, value in both.run_ort(unfold(model, sets[0]), sets[0]).items():
            np.testing.assert_array_equal(value, both.run_ort(model, sets[0])[name])
        self.assertEqual(find(PROGRAM, case)[1], 0)
        found, _, _ = find(planted("trip", "square", "Add"), case)
        self.assertEqual(found[0]["first"]["node"], "turns.body[0]/square")

    def test_scans_are_written_out(self):
        body = helper.make_graph(
            [helper.make_node("Add", ["s", "e"], ["t"], name="add"),
             helper.make_node("Mul", ["t", "e"], ["r"], name="mul")], "body",
            [info("s", TensorProto.FLOAT, [2]), info("e", TensorProto.FLOAT, [2])],
            [info("t", TensorProto.FLOAT, [2]), info("r", TensorProto.FLOAT, [2])])
        nodes = [helper.make_node("Scan", ["s0", "x"], ["last", "rows"], name="scan", body=body, num_scan_inputs=1,
                                  scan_input_axes=[1], scan_input_directions=[1], scan_output_axes=[1],
                                  scan_output_directions=[1])]
        feeds = {"s0": floats(2), "x": floats(2, 5, seed=3)}
        case = write_case("scan", nodes, [info("s0", TensorProto.FLOAT, [2]), info("x", TensorProto.FLOAT, [2, "t"])],
                          [info("last", TensorProto.FLOAT, [2]), info("rows", TensorProto.FLOAT, [2, "t"])], [feeds])
        model = both.load(case / "model.onnx")
        flat = unfold(model, feeds)
        self.assertNotIn("Scan", [n.op_type for n in flat.graph.node])
        for name, value in both.run_ort(flat, feeds).items():
            np.testing.assert_array_equal(value, both.run_ort(model, feeds)[name])
        found, _, _ = find(planted("scan_fault", "add", "Sub"), case)
        self.assertEqual(found[0]["first"]["node"], "scan.body[0]/add")

    def test_quantized(self):
        nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"], name="quantize"),
                 helper.make_node("MatMulInteger", ["q", "w", "zero"], ["sums"], name="product"),
                 helper.make_node("Cast", ["sums"], ["f"], name="cast", to=TensorProto.FLOAT),
                 helper.make_node("Mul", ["f", "scale"], ["y"], name="scale_back")]
        w = np.random.default_rng(5).integers(-60, 60, (8, 4), dtype=np.int8)
        case = write_case("quantized", nodes, [info("x", TensorProto.FLOAT, ["n", 8])],
                          [info("y", TensorProto.FLOAT, ["n", 4])], [{"x": floats(3, 8)}], {"w": w})
        self.assertEqual(find(PROGRAM, case)[1], 0)
        found, _, _ = find(planted("scale", "scale_back", "Div"), case)
        self.assertEqual(found[0]["first"]["node"], "scale_back")

    def test_a_side_that_fails_says_so(self):
        case = write_case("fails", *chain())
        found, status, _ = find(planted("no_operator", "/second/Tanh", "NoSuchOperator"), case)
        self.assertEqual(status, 2)
        self.assertIn("NoSuchOperator", found[0]["failed"])


class Trace(unittest.TestCase):
    def test_writes_every_value(self):
        case = write_case("traced", *chain())
        out = FOLDER / "trace"
        subprocess.run([sys.executable, str(HERE / "trace_ort.py"), str(case), "--set", "1", "-o", str(out)], check=True,
                       capture_output=True)
        index = json.loads((out / "index.json").read_text())
        self.assertEqual([e["value"] for e in index], ["a", "c", "d", "y"])
        np.testing.assert_allclose(np.load(out / index[3]["file"]), np.tanh(np.load(out / index[1]["file"])) ** 2, 1e-5)


class Hub(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_GET(self):
        files = [{"rfilename": "onnx/model.onnx"}, {"rfilename": "onnx/model_q4f16.onnx"}, {"rfilename": "README.md"}]
        body = json.dumps([{"id": "someone/bert", "downloads": 7, "config": {"model_type": "bert"}, "siblings": files}])
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())


def script(name, *words, text=None, **environment):
    return subprocess.run([sys.executable, str(HERE / name), *map(str, words)], input=text, capture_output=True, text=True,
                          env={**os.environ, **environment})


class Lists(unittest.TestCase):
    def test_hub_and_cases_are_listed(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        result = script("list_models.py", "--hub", HF_ENDPOINT=f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
        server.server_close()
        found = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual([(m["architecture"], m["precision"]) for m in found], [("bert", "f32"), ("bert", "q4f16")])
        write_case("listed", *chain(TensorProto.FLOAT16))
        found = json.loads(script("list_models.py", "--cases", FOLDER / "listed").stdout)
        self.assertEqual((found["precision"], found["operators"]), ("f16", ["Add", "MatMul", "Mul", "Tanh"]))

    def test_a_hub_out_of_reach_is_no_failure(self):
        result = script("list_models.py", "--hub", HF_ENDPOINT="http://127.0.0.1:9")
        self.assertEqual((result.returncode, result.stdout), (0, ""))
        self.assertIn("cannot be reached", result.stderr)

    def test_selection_shows_every_kind_once(self):
        models = [{"name": n, "architecture": a, "precision": p, "exporter": "e", "bytes": size, "operators": []}
                  for n, a, p, size in (("big", "bert", "f32", 9e6), ("small", "bert", "f32", 1e5), ("half", "bert", "f16", 1e5),
                                        ("huge", "vit", "f32", 9e7))]
        result = script("select_models.py", "--megabytes", 30, text="\n".join(map(json.dumps, models)))
        self.assertEqual([json.loads(line)["name"] for line in result.stdout.splitlines()], ["small", "half"])


class Record(unittest.TestCase):
    def test_records_what_transmuter_then_passes(self):
        model = write_case("to_record", *chain()) / "model.onnx"
        result = script("record_references.py", model, FOLDER / "recorded", "--dims", "n=2", "--dims", "n=7")
        if "no VNNI" in result.stderr:
            self.skipTest("this processor's ONNX Runtime saturates")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(subprocess.run([str(PROGRAM), "test", str(FOLDER / "recorded")], capture_output=True).returncode, 0)

    def test_the_matrix_of_what_was_recorded(self):
        suite = FOLDER / "suite"
        suite.mkdir(exist_ok=True)
        if not (FOLDER / "recorded").exists():
            self.skipTest("nothing was recorded")
        shutil.rmtree(suite / "one", ignore_errors=True)
        shutil.copytree(FOLDER / "recorded", suite / "one")
        results = FOLDER / "results.json"
        result = script("run_cases.py", PROGRAM, suite, "-o", results, "--backends", "cpu", "reference")
        self.assertEqual(result.returncode, 0, result.stderr)
        text = script("print_matrix.py", results).stdout
        self.assertIn("| suite | 1 | 1 | 1 |", text)


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    result = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], exit=False).result
    bad = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - bad} passed, {bad} failed")
    sys.exit(bad > 0)
