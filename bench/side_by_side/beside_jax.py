#!/usr/bin/env python3
"""The backend pjrt beside JAX on the StableHLO that `transmuter export` writes, and beside ONNX Runtime, taking turns.

usage: beside_jax.py TRANSMUTER BACKEND MODEL.onnx [--dim NAME=N ...] [--rounds 5] [--seconds 1]

BACKEND is pjrt[:PLUGIN]. Inputs are those of bench_inputs.py. Prints one line of JSON: medians in ms (ours, JAX, ONNX
Runtime), ratios of times and of processor times, and what the first and the second start of a process cost with an empty
cache of compiled programs. Needs jax, onnxruntime.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from bench_inputs import make_inputs
from bench_ort import open_session, time_calls

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "jax"))


def run(*command, env=None):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, env=env).stdout


def timed(call, seconds):
    """Of calls for so long: their median, and the processor time of one, in ms."""
    walls, cpu = time_calls(call, seconds)
    return statistics.median(walls), cpu


def jax_program(text, weights, inputs):
    import run_exported
    exported = run_exported.Exported(text, weights)
    values = dict(exported.weights)
    for number, kind, name in exported.arguments:
        if kind == "input":
            values[number] = exported.placed(number, inputs[name])
    arguments = [values[n] for n in sorted(values)]
    return lambda: [np.asarray(result) for result in exported.program.execute(arguments)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("backend")
    parser.add_argument("model")
    parser.add_argument("--dim", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    options = parser.parse_args()
    dims = [word for dim in options.dim for word in ("--dim", dim)]
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        text, weights = scratch / "model.mlir", scratch / "weights"
        run(options.program, "export", options.model, "--stablehlo", *dims, "--weights", weights, "-o", text)
        session = open_session(options.model, 0, "all")  # as many threads as it likes
        inputs = make_inputs(session, {k: int(v) for k, v in (d.split("=") for d in options.dim)})
        start = time.perf_counter()
        jax_call = jax_program(text.read_text(), weights, inputs)
        jax_start = time.perf_counter() - start
        env = dict(os.environ, TRANSMUTER_PJRT_CACHE=str(scratch / "cache"))

        def bench(seconds):
            return json.loads(run(options.program, "bench", options.model, "--backend", options.backend, *dims,
                                  "--seconds", seconds, "--json", env=env).splitlines()[-1])

        first, second = bench(0.1), bench(0.1)
        rows = []
        for _ in range(options.rounds):
            mine = bench(options.seconds)
            rows.append(((mine["median_ms"], mine["cpu_ms"]), timed(jax_call, options.seconds),
                         timed(lambda: session.run(None, inputs), options.seconds)))

    def ratio(other, figure):
        return round(statistics.median(row[0][figure] / row[other][figure] for row in rows), 3)

    print(json.dumps({
        "model": pathlib.Path(options.model).name,
        "medians_ms": [round(statistics.median(row[i][0] for row in rows), 2) for i in range(3)],
        "of_jax": ratio(1, 0), "of_jax_cpu": ratio(1, 1), "of_onnxruntime": ratio(2, 0), "of_onnxruntime_cpu": ratio(2, 1),
        "jax_compile_ms": round(jax_start * 1e3), "first_compile_ms": round(first["bind_us"] / 1e3),
        "second_of_first": round(second["bind_us"] / first["bind_us"], 3), "peak_rss_mb": second["peak_rss_mb"],
    }))


if __name__ == "__main__":
    main()
