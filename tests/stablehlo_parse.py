#!/usr/bin/env python3
"""Parses StableHLO text with XLA's own MLIR reader and verifies it: the printer's output checked by somebody else.

usage: stablehlo_parse.py [--run] PATH...                             files, or folders of *.mlir
       stablehlo_parse.py --program TRANSMUTER [--exceptions FILE] [--into DIR] FOLDER...
                                               folders of cases, exported by that program first

--exceptions FILE: lines `CASE REASON` of cases that cannot be exported or read; one that passes fails the run.
--run also runs modules that take no arguments in XLA: their results come in pairs, computed and expected.
With --program a case counts as skipped where there is nothing to print: no part of it is compiled, an operator is
not implemented, or the case is about an error.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from jaxlib import xla_client
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, stablehlo


# Of the program's messages.
NOTHING_TO_PRINT = ("has no program to print", "not implemented")


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

    def fault_of(self, text):
        try:
            self.check(text)
        except Exception as error:  # the bindings' error types differ between versions
            return str(error) or type(error).__name__
        return ""

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


def export(program, case, into):
    """(text, "") or (None, why the program printed nothing)."""
    file = into / case.parent.name / f"{case.name}.mlir"
    file.parent.mkdir(parents=True, exist_ok=True)
    meta = json.loads((case / "meta.json").read_text()) if (case / "meta.json").exists() else {}
    command = [program, "export", case / meta.get("model", "model.onnx"), "--stablehlo", "-o", file]
    done = subprocess.run(
        [*command, "--from-case", case / "test_data_set_0"], capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode == 0:
        return file.read_text(), ""
    expected = meta.get("expect") == "error" or meta.get("accept_error", False)
    if done.returncode == 1 and (expected or any(words in done.stderr for words in NOTHING_TO_PRINT)):
        return None, ""
    return None, f"export ended with {done.returncode}: {done.stderr.strip()}"


def texts_of_cases(program, folders, into):
    """Yields (name, text or None, fault) of all cases, a few programs at once."""
    cases = [case for folder in folders for case in sorted(folder.iterdir()) if (case / "test_data_set_0").is_dir()]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for case, (text, fault) in zip(cases, pool.map(lambda case: export(program, case, into), cases)):
            yield f"{case.parent.name}/{case.name}", text, fault


def texts_of_files(paths):
    for path in paths:
        for file in sorted(path.rglob("*.mlir")) if path.is_dir() else [path]:
            yield str(file), file.read_text(), ""


def read_exceptions(path):
    lines = [line.split(None, 1) for line in pathlib.Path(path).read_text().splitlines()]
    return {words[0] for words in lines if words and not words[0].startswith("#")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--program")
    parser.add_argument("--exceptions")
    parser.add_argument("--into", type=pathlib.Path)
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    excepted = read_exceptions(options.exceptions) if options.exceptions else set()
    with tempfile.TemporaryDirectory() as scratch:
        into = options.into or pathlib.Path(scratch)
        checker = Checker(options.run)
        passed = failed = skipped = 0
        for name, text, fault in (
            texts_of_cases(options.program, options.paths, into) if options.program else texts_of_files(options.paths)
        ):
            if text is not None:
                fault = checker.fault_of(text)
            if name in excepted:
                if fault:
                    text, fault = None, ""
                else:
                    fault = f"no fault any more, but listed in {options.exceptions}"
            passed += text is not None and not fault
            failed += bool(fault)
            skipped += text is None and not fault
            if fault:
                print(f"{name}: {fault}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
