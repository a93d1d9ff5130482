#!/usr/bin/env python3
"""Parses StableHLO text with JAX's own MLIR reader and verifies it: the printer's output checked by somebody else.

usage: stablehlo_parse.py FILE_OR_DIRECTORY...   (*.mlir in directories; needs `pip install jax`)
"""
import pathlib
import sys

from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir


def main(paths):
    files = []
    for path in map(pathlib.Path, paths):
        files += sorted(path.glob("*.mlir")) if path.is_dir() else [path]
    failed = 0
    for file in files:
        with mlir.make_ir_context():
            try:
                ir.Module.parse(file.read_text()).operation.verify()
            except Exception as error:  # the binding's own error type differs between versions
                failed += 1
                print(f"{file}: {error}")
    print(f"{len(files) - failed} parsed, {failed} failed")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print(__doc__)
        sys.exit(2)
    sys.exit(main(sys.argv[1:]))
