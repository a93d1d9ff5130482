#!/usr/bin/env python3
"""Every value inside of a model as ONNX Runtime (no optimizations) computes it.

    trace_ort.py CASE [--set N] [-o DIR]
    trace_ort.py MODEL.onnx --data-set DIR [-o DIR]

Prints a line a value, in the nodes' order; with -o each is written as .npy beside index.json.  Control flow is written out for
these inputs (--folded keeps it).
"""
import argparse
import json
import pathlib

import numpy as np

from lib import both
from lib.cases import Case
from lib.unfold import unfold


def describe(value):
    if not isinstance(value, np.ndarray):
        return f"{type(value).__name__} of {len(value)}" if hasattr(value, "__len__") else "nothing"
    text = f"{value.dtype} {list(value.shape)}"
    if value.size and value.dtype.kind in "fiub":
        wide = value.astype(np.float64)
        text += f"  min {wide.min():.6g}  max {wide.max():.6g}  mean {wide.mean():.6g}"
        if not np.isfinite(wide).all():
            text += f"  ({int((~np.isfinite(wide)).sum())} not finite)"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, help="a case folder, or a model with --data-set")
    parser.add_argument("--set", type=int, default=0, help="the data set of a case")
    parser.add_argument("--data-set", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path)
    parser.add_argument("--folded", action="store_true", help="leave control flow as it is")
    options = parser.parse_args()
    case = Case(options.model if options.model.is_dir() else options.model.parent)
    if not options.model.is_dir():
        case.path = options.model
    model = both.load(case.path)
    folder = options.data_set or case.folder / f"test_data_set_{options.set}"
    feeds = case.read(model, folder)
    if not options.folded:
        model = unfold(model, feeds)
    exposed, places = both.with_all_outputs(model)
    names = sorted(places, key=lambda n: places[n][0])
    values = both.run_ort(exposed, feeds, names)
    index = []
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        position, node, value = places[name]
        label = both.node_label(node, position)
        print(f"{label} ({node.op_type})  {value}: {describe(values[name])}")
        entry = {"node": label, "op": node.op_type, "domain": node.domain, "value": value}
        if options.output and isinstance(values[name], np.ndarray) and values[name].dtype.kind != "O":
            entry["file"] = f"{number:05d}.npy"
            np.save(options.output / entry["file"], values[name])
        index.append(entry)
    if options.output:
        (options.output / "index.json").write_text(json.dumps(index, indent=1))


if __name__ == "__main__":
    main()
