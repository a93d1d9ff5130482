#!/usr/bin/env python3
"""Makes the operator cases that a clone carries with it: one small graph an operator variant, with the right answers.

    make_op_cases.py [--folder DEST]     writes tests/data/op_cases.tar.xz, or with --folder the case folders alone

Each case names its authority in meta.json ("reference"):

    both            ONNX Runtime without optimizations and onnx.reference give the same (within the case's tolerance)
    onnxruntime     only ONNX Runtime runs it, or a row says so (com.microsoft operators, and where onnx.reference is wrong)
    onnx            only onnx.reference runs it, or a row says so
    numpy           the row has the answer itself: a few lines of NumPy written from the specification
    hand            the row has numbers worked out by hand (tests/op_cases/traps.py)

A row on which the two runtimes differ and that names no authority is an error: somebody has to read the specification. The
rows are in tests/op_cases/, a module a family. Seeds are fixed; the archive's bytes depend on the rows and the pinned
packages alone.
"""
import argparse
import importlib
import io
import json
import lzma
import pathlib
import sys
import tarfile
import zlib

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

HERE = pathlib.Path(__file__).resolve().parent
FAMILIES = ["elementwise", "shape", "reduce", "product", "window", "index", "quantize", "recurrent", "contrib", "packed",
            "ordered", "generation", "ml", "traps", "traps_more"]
CUSTOM_DOMAINS = {"com.microsoft": 1, "ai.onnx.ml": 3}
# By the output's dtype: (rtol, atol). Integers, booleans and strings are exact.
TOLERANCE = {
    np.dtype("float64"): (1e-9, 1e-12), np.dtype("float32"): (1e-5, 1e-6), np.dtype("float16"): (2e-3, 1e-3),
    np.dtype(ml_dtypes.bfloat16): (1.6e-2, 4e-3), np.dtype("complex64"): (1e-5, 1e-6),
}


class Disagreement(Exception):
    pass


def value_info(name, value):
    if value is None:
        return None
    dtype = onnx.TensorProto.STRING if value.dtype.kind in "UO" else helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(name, dtype, value.shape)


def proto(value, name):
    tensor = numpy_helper.from_array(value.astype(object) if value.dtype.kind == "U" else value, name)
    return tensor.SerializeToString()


def by_onnxruntime(model, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def by_onnx(model, feeds):
    return [np.asarray(x) for x in ReferenceEvaluator(model).run(None, feeds)]


def attempt(run, model, feeds):
    try:
        with np.errstate(all="ignore"):
            return run(model, feeds)
    except Exception as error:  # noqa: BLE001: neither runtime has a common class of errors
        return error


def tolerance(meta, value):
    rtol, atol = TOLERANCE.get(value.dtype, (0, 0))
    return meta.get("rtol", rtol), meta.get("atol", atol)


def difference(meta, one, other):
    """What differs between two runtimes' answers, or None."""
    if len(one) != len(other):
        return f"{len(one)} and {len(other)} outputs"
    for i, (a, b) in enumerate(zip(one, other)):
        if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
            return f"output {i}: {a.dtype}{a.shape} and {b.dtype}{b.shape}"
        rtol, atol = tolerance(meta, a)
        if a.dtype.kind in "OUb" or (rtol == 0 and atol == 0):
            if not np.array_equal(a, b):
                return f"output {i}: {a.reshape(-1)[:8]} and {b.reshape(-1)[:8]}"
        elif not np.allclose(a.astype(np.float64), b.astype(np.float64), rtol=rtol, atol=atol, equal_nan=True):
            return f"output {i}: {a.reshape(-1)[:8]} and {b.reshape(-1)[:8]}"
    return None


class Cases:
    def __init__(self):
        self.cases = {}  # name -> {path: bytes}
        self.problems = []
        self.families = {}

    def rng(self, name):
        """Random numbers that depend on the case's name alone, so that a new row changes no other."""
        return np.random.default_rng(zlib.crc32(name.encode()))

    def add(self, name, op, inputs, attributes=None, *, version=None, domain="", outputs=1, expected=None, by=None,
            note="", constants=(), **meta):
        """One node. `inputs`: arrays (None: absent); those at the places in `constants` are initializers. `outputs`: how
        many, or a list of names ("" for one that is left out). `expected`: the answers, or nothing where a runtime is the
        authority. `by`: that authority, where it isn't both."""
        names = [f"x{i}" if value is not None else "" for i, value in enumerate(inputs)]
        results = [f"y{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
        node = helper.make_node(op, names, results, domain=domain, **(attributes or {}))
        self.add_graph(name, [node], {n: v for n, v in zip(names, inputs) if v is not None},
                       [r for r in results if r], version=version, expected=expected, by=by, note=note,
                       constants=[names[i] for i in constants], domains=[domain] if domain else [], op=op, domain=domain,
                       **meta)

    def add_graph(self, name, nodes, inputs, outputs, *, version=None, expected=None, by=None, note="", constants=(),
                  domains=(), **meta):
        if name in self.cases:
            raise ValueError(f"two cases are called {name}")
        version = version or 23
        opsets = [helper.make_opsetid("", version)] + [helper.make_opsetid(d, CUSTOM_DOMAINS[d]) for d in domains]
        fed = {k: v for k, v in inputs.items() if k not in constants}
        initializers = [numpy_helper.from_array(inputs[k], k) for k in constants]
        infos = [value_info(k, v) for k, v in fed.items()]

        def model_of(output_infos):
            graph = helper.make_graph(nodes, name, infos, output_infos, initializers)
            return helper.make_model(graph, opset_imports=opsets, ir_version=10 if version <= 23 else 13,
                                     producer_name="make_op_cases")

        model = model_of([helper.make_empty_tensor_value_info(o) for o in outputs])
        answers, reference = self.answers(name, model, fed, expected, by, meta)
        if answers is None:
            return
        model = model_of([value_info(o, a) for o, a in zip(outputs, answers)])
        entry = {k: v for k, v in meta.items() if v not in ("", None)}
        floats = [tolerance(meta, a) for a in answers]
        entry["rtol"], entry["atol"] = max(f[0] for f in floats), max(f[1] for f in floats)
        entry["reference"], entry["expect"] = reference, "match"
        if note:
            entry["notes"] = note
        files = {"model.onnx": model.SerializeToString(),
                 "meta.json": (json.dumps(entry, sort_keys=True) + "\n").encode()}
        for i, (key, value) in enumerate(fed.items()):
            files[f"test_data_set_0/input_{i}.pb"] = proto(value, key)
        for i, (key, value) in enumerate(zip(outputs, answers)):
            files[f"test_data_set_0/output_{i}.pb"] = proto(value, key)
        self.cases[name] = files
        self.families.setdefault(reference, []).append(name)

    def refused(self, name, op, inputs, attributes=None, *, version=None, domain="", **meta):
        """One node that the specification does not allow: an error that says `must_mention`, at load or at run."""
        names = [f"x{i}" if value is not None else "" for i, value in enumerate(inputs)]
        node = helper.make_node(op, names, ["y"], domain=domain, **(attributes or {}))
        opsets = [helper.make_opsetid("", version or 23)] + ([helper.make_opsetid(domain, CUSTOM_DOMAINS[domain])] if domain
                                                             else [])
        fed = {n: v for n, v in zip(names, inputs) if v is not None}
        graph = helper.make_graph([node], name, [value_info(k, v) for k, v in fed.items()],
                                  [helper.make_empty_tensor_value_info("y")])
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10, producer_name="make_op_cases")
        entry = {"op": op, "domain": domain, "expect": "error", "stage": "run", "reference": "hand"} | meta
        files = {"model.onnx": model.SerializeToString(),
                 "meta.json": (json.dumps(entry, sort_keys=True) + "\n").encode()}
        for i, (key, value) in enumerate(fed.items()):
            files[f"test_data_set_0/input_{i}.pb"] = proto(value, key)
        self.cases[name] = files
        self.families.setdefault("hand", []).append(name)

    def answers(self, name, model, feeds, expected, by, meta):
        if expected is not None:
            expected = expected if isinstance(expected, (list, tuple)) else [expected]
            return [np.asarray(e) for e in expected], by or "numpy"
        ours = {"onnxruntime": by_onnxruntime, "onnx": by_onnx}
        feeds = {k: v.astype(object) if v.dtype.kind == "U" else v for k, v in feeds.items()}
        if by:
            got = attempt(ours[by], model, feeds)
            if isinstance(got, Exception):
                self.problems.append(f"{name}: {by} refuses: {str(got)[-300:]}")
                return None, None
            return got, by
        one, other = attempt(by_onnxruntime, model, feeds), attempt(by_onnx, model, feeds)
        if isinstance(one, Exception) and isinstance(other, Exception):
            self.problems.append(f"{name}: nobody runs it: {str(one)[-200:]}; {str(other)[-200:]}")
            return None, None
        if isinstance(one, Exception):
            return other, "onnx"
        if isinstance(other, Exception):
            return one, "onnxruntime"
        if what := difference(meta, one, other):
            self.problems.append(f"{name}: ONNX Runtime and onnx.reference differ, name an authority: {what}")
            return None, None
        return one, "both"


def pack(cases):
    """A tar whose bytes depend on the cases alone."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(cases):
            for path in sorted(cases[name]):
                info = tarfile.TarInfo(f"op_cases/{name}/{path}")
                info.size = len(cases[name][path])
                tar.addfile(info, io.BytesIO(cases[name][path]))
    return lzma.compress(raw.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=pathlib.Path)
    arguments = parser.parse_args()
    cases = Cases()
    sys.path.insert(0, str(HERE))
    for family in FAMILIES:
        importlib.import_module(f"op_cases.{family}").add_cases(cases)
    for problem in cases.problems:
        print(problem, file=sys.stderr)
    print(f"{len(cases.cases)} cases: " + ", ".join(f"{len(v)} by {k}" for k, v in sorted(cases.families.items())))
    if arguments.folder:
        for name, files in cases.cases.items():
            for path, data in files.items():
                to = arguments.folder / name / path
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_bytes(data)
    elif not cases.problems:
        archive = pack(cases.cases)
        (HERE / "data" / "op_cases.tar.xz").write_bytes(archive)
        print(f"{len(archive)} bytes")
    return 1 if cases.problems else 0


if __name__ == "__main__":
    sys.exit(main())
