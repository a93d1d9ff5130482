#!/usr/bin/env python3
"""Writes guides/conformance.md: every suite on every backend, what passes, the worst distance, each exception with its reason.

    make_conformance.py PROGRAM CASES [--jobs N] [--pjrt PLUGIN]

PROGRAM is `transmuter`, CASES the folder of the suites that scripts/test.sh unpacks (build/cases). A suite that isn't there is
left out with a line. With --pjrt the backend pjrt, too, which takes a while. Run it when a suite, an exception or a backend changes; the figures are this machine's.
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUITES = {
    "node": "ONNX's backend node tests, from the pinned `onnx` package",
    "op_cases": "one graph an operator variant, `tests/make_op_cases.py`; each case names its authority",
    "ops_variants": "opset versions, dtypes, empty tensors, containers, strings, graph structure, `ai.onnx.ml`",
    "ops_contrib": "`com.microsoft` operators beside ONNX Runtime",
    "traps": "known pitfalls with the right answer, whatever runtimes print",
    "malformed": "files that must fail with one clear error",
    "zoo_text": "tiny models of about 70 text architectures, as exporters write them",
    "zoo_vision": "the same for vision, audio, diffusion, tabular",
}
OPERATOR_SUITES = ["node", "op_cases", "ops_variants", "ops_contrib", "traps", "malformed"]
PJRT_SUITES = ["node", "traps", "zoo_text", "zoo_vision"]
RUNS = [("cpu", []), ("cpu, passes off", ["--no-passes"]), ("reference", [])]


def exceptions():
    """(suite, case, backend, reason) of each line."""
    rows = []
    for line in (ROOT / "tests/exceptions.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, backend, reason = line.split(maxsplit=2)
            rows.append((*name.split("/", 1), backend, reason))
    return rows


def run(program, folder, backend, extra, jobs):
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [program, "test", str(folder), "--backend", backend, "--exceptions", str(ROOT / "tests/exceptions.txt"),
                   "--jobs", str(jobs), "--threads", "1", "--report", report.name, *extra]
        result = subprocess.run(command, capture_output=True, text=True)
        counts = re.findall(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", result.stdout, re.M)
        if not counts:
            sys.exit(f"{' '.join(command)}: {result.stderr or result.stdout}")
        return [int(c) for c in counts[-1]], json.loads(pathlib.Path(report.name).read_text())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--pjrt")
    arguments = parser.parse_args()
    text = ["# Conformance", "", "Written by `scripts/make_conformance.py` from reports of `transmuter test`. A case "
            "passes when all outputs of all data sets,", "run through one compiled model, lie within the tolerance that the "
            "suite gives; excepted cases are those of", "`tests/exceptions.txt`, each with its reason below. The last column "
            "is the worst distance of a float from what was", "expected, in units in the last place, beyond the case's "
            "absolute tolerance, of the cases that pass; the cases", "with the widest relative tolerance decide it.", "",
            "| Suite | Backend | Passed | Failed | Excepted | Median of the worst ULP | Worst ULP (case) |",
            "|---|---|---|---|---|---|---|"]
    for suite, what in SUITES.items():
        folder = (arguments.cases / suite).resolve()
        if not folder.is_dir():
            print(f"no {folder}: left out", file=sys.stderr)
            continue
        for label, extra in RUNS + ([("pjrt", [])] if arguments.pjrt and suite in PJRT_SUITES else []):
            if label not in ("cpu", "pjrt") and suite not in OPERATOR_SUITES:
                continue
            backend = f"pjrt:{arguments.pjrt}" if label == "pjrt" else label.split(",")[0]
            (passed, failed, skipped), report = run(arguments.program, folder, backend, extra, arguments.jobs)
            ulps = sorted((r["ulps"], r["case"].split("/", 1)[1]) for r in report if r["passed"])
            off = [u for u in ulps if u[0] > 0]
            median = f"{off[len(off) // 2][0]:.2g}" if off else "0"
            worst = f"{off[-1][0]:.2g} ({off[-1][1]})" if off else "0"
            text.append(f"| {suite} | {label} | {passed} | {failed} | {skipped} | {median} | {worst} |")
    text += ["", "## The suites", ""] + [f"- **{suite}**: {what}." for suite, what in SUITES.items()]
    text += ["", "## Exceptions", "", "A listed case that passes fails the run, so the list only shrinks. "
             "`*`: every backend; `eager`: operator by", "operator.", ""]
    grouped = collections.OrderedDict()
    for suite, case, backend, reason in exceptions():
        grouped.setdefault((suite, backend, reason), []).append(case)
    text += ["| Suite | Cases | Where | Why |", "|---|---|---|---|"]
    text += [f"| {suite} | {', '.join(cases)} | {backend} | {reason} |" for (suite, backend, reason), cases in grouped.items()]
    (ROOT / "guides/conformance.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
