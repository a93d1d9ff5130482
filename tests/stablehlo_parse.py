#!/usr/bin/env python3
"""Parses StableHLO text with JAX's own MLIR reader and verifies it: the printer's output checked by somebody else.

usage: stablehlo_parse.py [--run] FILE_OR_DIRECTORY...   (*.mlir in directories; needs `pip install jax`)

--run also runs modules that take no arguments in XLA: their results come in pairs, computed and expected.
"""
import pathlib
import sys

import numpy as np
from jax._src import xla_bridge
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax._src.lib.mlir import ir


def run(text):
    """The module's results as arrays, from XLA's CPU backend."""
    client = xla_bridge.get_backend("cpu")
    devices = xla_client.DeviceList((client.local_devices()[0],))
    program = client.compile_and_load(text, devices, xla_client.CompileOptions())
    return [np.asarray(array) for array in program.execute([])]


def check(file, execute):
    text = file.read_text()
    with mlir.make_ir_context():
        ir.Module.parse(text).operation.verify()
    if not execute or "@main()" not in text:
        return
    results = run(text)
    for got, expected in zip(results[::2], results[1::2]):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9)


def main(arguments):
    execute = "--run" in arguments
    files = []
    for path in map(pathlib.Path, (a for a in arguments if a != "--run")):
        files += sorted(path.glob("*.mlir")) if path.is_dir() else [path]
    failed = 0
    for file in files:
        try:
            check(file, execute)
        except Exception as error:  # the bindings' error types differ between versions
            failed += 1
            print(f"{file}: {error}")
    print(f"{len(files) - failed} passed, {failed} failed")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print(__doc__)
        sys.exit(2)
    sys.exit(main(sys.argv[1:]))
