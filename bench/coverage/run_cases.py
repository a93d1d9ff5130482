#!/usr/bin/env python3
"""Runs suites of model cases on backends and writes what print_matrix.py reads.

    run_cases.py PROGRAM -o results.json [--backends cpu reference] [--packages DIR] SUITE [SUITE ...]

SUITE is a folder of cases.  A case without model.onnx whose meta.json names `models` is a sequence (lib/sequences.py): its
models lie under --packages, and its steps go through `transmuter run`.  Cases of tests/exceptions.txt are run, too, and marked.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

from lib import both
from lib.cases import Case
from lib.compare import difference
from lib.precision import precision
from lib.sequences import sequence_for

ROOT = pathlib.Path(__file__).resolve().parents[2]


def exceptions(backend):
    """{suite/case: reason} of a backend."""
    rows = {}
    for line in (ROOT / "tests/exceptions.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, where, reason = line.split(maxsplit=2)
            if where in ("*", backend):
                rows[name] = reason
    return rows


def about(case):
    """What a case's model is."""
    model = onnx.load(str(case.path), load_external_data=False)
    meta = case.meta
    source = meta.get("source", {})
    return {"architecture": meta.get("architecture") or meta.get("kind") or case.folder.name,
            "exporter": meta.get("exporter") or (f"package {source['package']}" if source else ""),
            "precision": meta.get("precision_label") or precision(model), "bytes": case.path.stat().st_size,
            "nodes": len(model.graph.node), "data_sets": len(case.data_sets())}


def run_suite(program, folder, backend, jobs):
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [str(program), "test", str(folder), "--backend", backend, "--jobs", str(jobs), "--threads", "1",
                   "--report", report.name]
        result = subprocess.run(command, capture_output=True, text=True)
        text = pathlib.Path(report.name).read_text()
        if not text:
            sys.exit(f"{' '.join(command)}: {result.stderr or result.stdout}")
        return json.loads(text)


def run_sequence(program, case, backend, packages):
    """One row, as `transmuter test` reports cases."""
    arrays = {p.stem: np.load(p) for p in case.folder.glob("*.npy")}
    inputs = {}

    def step(name, feeds):
        path = packages / name
        if path not in inputs:
            inputs[path] = {i.name for i in onnx.load(str(path), load_external_data=False).graph.input}
        feeds = {k: v for k, v in feeds.items() if k in inputs[path]}
        return both.run_ours(program, path, feeds, ["--backend", backend, "--threads", "1"])

    start = time.time()
    row = {"case": case.name, "traces": None, "breaks": None, "share_of_tolerance": 0}
    try:
        got = sequence_for(case.folder.name)(step, case.meta, arrays)
        wrong = {n: difference(arrays[n], v, 1e-3, 1e-4) for n, v in got.items()}
        row["reason"] = "; ".join(f"{n}: {d}" for n, d in wrong.items() if d)
    except both.Failed as error:
        row["reason"] = str(error)
    return {**row, "passed": not row["reason"], "seconds": time.time() - start}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("suites", nargs="+", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--backends", nargs="+", default=["cpu", "reference"])
    parser.add_argument("--packages", type=pathlib.Path, help="where the models of sequences lie")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    rows, known = [], {}
    for suite in options.suites:
        folders = sorted(f for f in suite.iterdir() if f.is_dir())
        cases = [c for c in map(Case, folders) if c.path.exists()]
        sequences = [c for c in map(Case, folders) if not c.path.exists() and c.meta.get("models")]
        known.update({c.name: about(c) for c in cases})
        for backend in options.backends:
            excepted = exceptions(backend)
            found = run_suite(options.program, suite, backend, options.jobs) if cases else []
            found = [r for r in found if r["case"] in known]
            if options.packages:
                found += [run_sequence(options.program, c, backend, options.packages) for c in sequences]
            for row in found:
                what = known.get(row["case"]) or {"architecture": "sequence", "exporter": "", "precision": "–"}
                status = "passed" if row["passed"] else "excepted" if row["case"] in excepted else "failed"
                rows.append({**what, "suite": suite.name, "case": row["case"], "backend": backend, "status": status,
                             "reason": row.get("reason", ""), "exception": excepted.get(row["case"], ""),
                             "share": row.get("share_of_tolerance"), "traces": row["traces"], "breaks": row["breaks"],
                             "seconds": round(row["seconds"], 3)})
            counts = {s: sum(r["status"] == s for r in rows if r["suite"] == suite.name and r["backend"] == backend)
                      for s in ("passed", "excepted", "failed")}
            print(f"{suite.name} on {backend}: " + ", ".join(f"{n} {s}" for s, n in counts.items()), flush=True)
    options.output.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(any(r["status"] == "failed" for r in rows))


if __name__ == "__main__":
    main()
