#!/usr/bin/env python3
"""Writes guides/conformance.md: every suite on every backend, what passes, the worst distance, each exception with its reason.

    make_conformance.py PROGRAM CASES [--jobs N] [--pjrt PLUGIN]
    make_conformance.py --check LOGS

PROGRAM is `transmuter`, CASES the folder of the suites that scripts/test.sh unpacks (build/cases). A suite that isn't there is
left out with a line. With --pjrt the backend pjrt, too, which takes a while; without it its rows stay as they are. Run it when a suite, an exception or a backend changes; the figures are this machine's.

With --check nothing runs: the page must say what tests/exceptions.txt says, and count what the logs of scripts/test.sh count
(build/test-logs, those suites that it ran).
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
PAGE = ROOT / "guides/conformance.md"
SUITES = {
    "node": "ONNX's backend node tests, from the pinned `onnx` package",
    "op_cases": "one graph an operator variant, `tests/make_op_cases.py`; each case names its authority",
    "ops_variants": "opset versions, dtypes, empty tensors, containers, strings, graph structure, `ai.onnx.ml`",
    "ops_contrib": "`com.microsoft` operators beside ONNX Runtime",
    "traps": "known pitfalls with the right answer, whatever runtimes print",
    "malformed": "files that must fail with one clear error",
    "zoo": "small models that a clone carries with it, `bench/coverage/make_zoo.py`",
    "zoo_text": "tiny models of about 70 text architectures, as exporters write them",
    "zoo_vision": "the same for vision, audio, diffusion, tabular",
}
OPERATOR_SUITES = ["node", "op_cases", "ops_variants", "ops_contrib", "traps", "malformed"]
PJRT_SUITES = ["node", "op_cases", "ops_variants", "ops_contrib", "traps", "zoo", "zoo_text", "zoo_vision"]
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


HEAD = """# Conformance

Written by `scripts/make_conformance.py` from reports of `transmuter test`. A case passes when all outputs of all data sets,
run through one compiled model, lie within the tolerance that the suite gives; excepted cases are those of
`tests/exceptions.txt`, each with its reason below. The last column is the worst distance of a float from what was
expected, in units in the last place, beyond the case's absolute tolerance, of the cases that pass; the cases
with the widest relative tolerance decide it.

| Suite | Backend | Passed | Failed | Excepted | Median of the worst ULP | Worst ULP (case) |
|---|---|---|---|---|---|---|
"""


def tail():
    """What stands behind the table: it depends on no run."""
    text = ["", "## The suites", ""] + [f"- **{suite}**: {what}." for suite, what in SUITES.items()]
    text += ["", "## Exceptions", "", "A listed case that passes fails the run, so the list only shrinks. "
             "`*`: every backend; `eager`: operator by", "operator. That the node cases excepted everywhere expect what the specification "
             "does not say is shown by", "`tests/prove_exceptions.py`, from the stored files alone.", ""]
    grouped = collections.OrderedDict()
    for suite, case, backend, reason in exceptions():
        grouped.setdefault((suite, backend, reason), []).append(case)
    text += ["| Suite | Cases | Where | Why |", "|---|---|---|---|"]
    text += [f"| {suite} | {', '.join(cases)} | {backend} | {reason} |" for (suite, backend, reason), cases in grouped.items()]
    return "\n".join(text) + "\n"


def table(arguments):
    rows = []
    kept = [line for line in PAGE.read_text().split("## The suites")[0].splitlines() if "| pjrt |" in line]
    for suite in SUITES:
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
            rows.append(f"| {suite} | {label} | {passed} | {failed} | {skipped} | {median} | {worst} |")
        if not arguments.pjrt:
            rows += [line for line in kept if line.startswith(f"| {suite} |")]
    return "\n".join(rows) + "\n"


def check(logs):
    """The sentences that say where the page is out of date."""
    page = PAGE.read_text()
    if not page.startswith(HEAD) or not page.endswith(tail()):
        return ["its words or its exceptions are not what this script and tests/exceptions.txt say"]
    faults = []
    for line in page[len(HEAD):-len(tail())].splitlines():
        suite, label, *counts = [cell.strip() for cell in line.strip("|").split("|")][:5]
        name = re.sub("[^a-z0-9_]", "-", f"{suite} on {label}")
        log = logs / f"{name}.txt"
        found = re.findall(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", log.read_text(), re.M) if log.is_file() else []
        if found and list(found[-1]) != counts:
            faults.append(f"{suite} on {label}: the page has {counts}, {log.name} {list(found[-1])}")
    return faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", nargs="?")
    parser.add_argument("cases", type=pathlib.Path, nargs="?")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--pjrt")
    parser.add_argument("--check", type=pathlib.Path, metavar="LOGS")
    arguments = parser.parse_args()
    if arguments.check:
        faults = check(arguments.check)
        print("\n".join(faults))
        sys.exit("guides/conformance.md: run scripts/make_conformance.py" if faults else 0)
    if not arguments.cases:
        parser.error("PROGRAM and CASES are needed")
    PAGE.write_text(HEAD + table(arguments) + tail())


if __name__ == "__main__":
    main()
