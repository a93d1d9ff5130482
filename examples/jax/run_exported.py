#!/usr/bin/env python3
"""An ONNX model in JAX: `transmuter export` writes its program as StableHLO, JAX compiles and runs it, and the results are
compared with what Transmuter computes itself.

usage: run_exported.py TRANSMUTER MODEL.onnx INPUT=FILE.npy|JSON ...

Needs jax (pip install jax). The model must be one program, without graph breaks; `transmuter inspect MODEL --trace` shows
them.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import jax
import ml_dtypes
import numpy as np
from jax.extend.backend import get_backend, get_compile_options
from jaxlib import xla_client

jax.config.update("jax_enable_x64", True)  # ONNX has 64-bit integers
RESULT = re.compile(r"^// result \d+: (.*)$", re.MULTILINE)
ARGUMENT = re.compile(r"^// %arg(\d+): (input|weight) (.*)$", re.MULTILINE)
TYPE = re.compile(r"%arg(\d+): tensor<(?:\d+x)*([\w<>]+?)>[,) ]")
DTYPES = {"i1": "bool", "f16": "float16", "f32": "float32", "f64": "float64", "bf16": ml_dtypes.bfloat16}


def dtype_of(text):
    if text.startswith("f8") or text.startswith("f4"):
        return getattr(ml_dtypes, "float" + text[1:].lower().replace("e", "_e", 1))
    if text in DTYPES:
        return np.dtype(DTYPES[text])
    return np.dtype(re.sub(r"^(u?)i", r"\1int", text))


class Exported:
    """A module of `transmuter export` with its weights, ready to call."""

    def __init__(self, text, weights):
        header = text[: text.index("\n", text.index("func.func"))]
        self.dtypes = {int(number): dtype_of(name) for number, name in TYPE.findall(header)}
        self.results = RESULT.findall(text)
        self.arguments = [(int(number), kind, name) for number, kind, name in ARGUMENT.findall(text)]
        backend = get_backend()
        devices = xla_client.DeviceList((backend.local_devices()[0],))
        options = get_compile_options(num_replicas=1, num_partitions=1)
        self.program = backend.compile_and_load(text, devices, options)
        self.weights = {
            number: self.placed(number, np.load(weights / f"transmuter.{number}.npy"))
            for number, kind, _ in self.arguments if kind == "weight"
        }

    def placed(self, number, value):
        return jax.device_put(value.astype(self.dtypes[number]))

    def __call__(self, inputs):
        given = {number: self.placed(number, inputs[name]) for number, kind, name in self.arguments if kind == "input"}
        values = {**self.weights, **given}
        results = self.program.execute([values[n] for n in sorted(values)])
        return {name: np.asarray(result) for name, result in zip(self.results, results)}


def value_of(text):
    return np.load(text) if text.endswith(".npy") else np.array(json.loads(text))


def transmuter(*arguments):
    return subprocess.run([str(a) for a in arguments], check=True, capture_output=True, text=True).stdout


def main(program, model, *assignments):
    inputs = {name: value_of(text) for name, text in (assignment.split("=", 1) for assignment in assignments)}
    given = [word for assignment in assignments for word in ("-i", assignment)]
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        transmuter(program, "export", model, "--stablehlo", *given, "--weights", scratch / "weights",
                   "-o", scratch / "model.mlir")
        results = Exported((scratch / "model.mlir").read_text(), scratch / "weights")(inputs)
        transmuter(program, "run", model, *given, "-o", scratch / "run")
        expected = {name: np.load(scratch / "run" / f"{name.replace('/', '_')}.npy") for name in results}
    worst = 0.0
    for name, value in expected.items():
        value = value.astype(np.float64)
        difference = float(np.max(np.abs(value - results[name].astype(np.float64)), initial=0))
        worst = max(worst, difference / float(np.max(np.abs(value), initial=1)))
        print(f"{name} {list(value.shape)}: JAX on {jax.devices()[0].platform} differs by {difference:.2g} at most")
    if worst > 1e-4:
        sys.exit("the results are not the same")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
