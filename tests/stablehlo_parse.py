#!/usr/bin/env python3
"""Parses StableHLO text with XLA's own MLIR reader and verifies it: the printer's output checked by somebody else.

usage: stablehlo_parse.py [--run] [--exceptions FILE] FILE_OR_DIRECTORY...   (*.mlir, also in the directories below)

--run also runs modules that take no arguments in XLA: their results come in pairs, computed and expected.
--exceptions: lines `NAME REASON` for texts that are not expected to pass; NAME is the file's path below its directory,
              without .mlir. One that passes fails the run. A file with nothing in it is a program that could not be
              printed: it fails unless it is listed.
"""
import argparse
import pathlib
import sys

import numpy as np
from jaxlib import xla_client
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, stablehlo


def make_context():
    context = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    chlo.register_dialect(context)
    stablehlo.register_dialect(context)
    return context


class Checker:
    def __init__(self, execute):
        self.context = make_context()
        self.client = xla_client.make_cpu_client() if execute else None

    def check(self, text):
        """Raises what the reader, or a comparison, has to say."""
        with self.context:
            ir.Module.parse(text).operation.verify()
        if self.client and "@main()" in text:
            results = self.run(text)
            for got, expected in zip(results[::2], results[1::2]):
                np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9)

    def run(self, text):
        devices = xla_client.DeviceList((self.client.local_devices()[0],))
        program = self.client.compile_and_load(text, devices, xla_client.CompileOptions())
        return [np.asarray(array) for array in program.execute([])]


def read_exceptions(path):
    lines = [line.split(None, 1) for line in pathlib.Path(path).read_text().splitlines()]
    return {words[0]: words[1] for words in lines if words and not words[0].startswith("#")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--exceptions")
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    excepted = read_exceptions(options.exceptions) if options.exceptions else {}
    files = {}  # name: file
    for path in options.paths:
        found = sorted(path.rglob("*.mlir")) if path.is_dir() else [path]
        files.update({str(f.relative_to(path) if path.is_dir() else f).removesuffix(".mlir"): f for f in found})

    checker = Checker(options.run)
    passed = failed = skipped = 0
    for name, file in files.items():
        fault = ""
        try:
            checker.check(file.read_text())
        except Exception as error:  # the bindings' error types differ between versions
            fault = str(error) or type(error).__name__
        if name in excepted:
            if fault:
                skipped += 1
                continue
            fault = f"passes, but is listed in {options.exceptions}"
        passed += not fault
        failed += bool(fault)
        if fault:
            print(f"{name}: {fault}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
