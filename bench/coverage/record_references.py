#!/usr/bin/env python3
"""Makes a case of any model: inputs, and what ONNX Runtime without optimizations gives for them.

    record_references.py MODEL.onnx DEST --dims sequence_length=8 --dims batch_size=2,sequence_length=5 [--seed N]

Each --dims is a data set; sizes are those that the model names (batch_size is 1 and past_sequence_length 0 unless given; a size
without a name is INPUT:AXIS).  Inputs follow bench/side_by_side/bench_inputs.py; --input NAME=FILE.npy or NAME=JSON gives one.
The tolerance is --rtol, and --atol as a part of the outputs' size; the meta.json also says how far ONNX Runtime's own
optimizations move the outputs, which no tolerance should be below.
"""
import argparse
import json
import pathlib
import sys

import numpy as np
import onnx

from lib import both
from lib.record import Inexact, check_exact, record

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "side_by_side"))

import bench_inputs  # noqa: E402


def inputs(session, dims, given, seed):
    """Arrays for a session's inputs with these sizes."""
    dims, vocab = bench_inputs.with_defaults(dims), bench_inputs.vocab_size(session)
    feeds = {}
    for x in session.get_inputs():
        if x.name in given:
            feeds[x.name] = given[x.name]
            continue
        if x.type not in bench_inputs.DTYPES:
            sys.exit(f"input {x.name} is {x.type}: give it with --input")
        shape = [dims.get(f"{x.name}:{axis}", extent) for axis, extent in enumerate(x.shape)]
        feeds[x.name] = bench_inputs.make_input(x.name, bench_inputs.DTYPES[x.type], bench_inputs.resolve(shape, dims), dims,
                                                vocab, seed)
    return feeds


def given_value(text, session):
    name, _, value = text.partition("=")
    if value.endswith(".npy"):
        return name, np.load(value)
    kinds = {x.name: x.type for x in session.get_inputs()}
    dtype = bench_inputs.DTYPES.get(kinds.get(name), object)
    return name, np.array(json.loads(value), dtype)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("dest", type=pathlib.Path)
    parser.add_argument("--dims", action="append", default=[], metavar="NAME=SIZE,...")
    parser.add_argument("--input", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rtol", type=float, default=1e-3)
    parser.add_argument("--atol", type=float, default=1e-4)
    options = parser.parse_args()
    try:
        check_exact()
    except Inexact as error:
        sys.exit(str(error))
    model = onnx.load(str(options.model))
    session = both.session(options.model)
    given = dict(given_value(text, session) for text in options.input)
    sets = []
    for text in options.dims or [""]:
        pairs = [p.rpartition("=") for p in text.split(",") if p]
        sets.append(inputs(session, {name: int(size) for name, _, size in pairs}, given, options.seed + len(sets)))
    meta = record(options.dest, model, sets, (options.rtol, options.atol), architecture=options.model.stem)
    print(f"{options.dest}: {len(sets)} data sets, atol {meta['atol']}; optimizations move outputs by "
          f"{meta['moved_by_optimizations']}")


if __name__ == "__main__":
    main()
