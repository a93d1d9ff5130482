#!/usr/bin/env python3
"""Writes the models of whole suites anew and checks that they are the same models.

    check_round_trip.py PROGRAM CASES WORK SUITE... [--every N] [--exceptions FILE]

Each case's model goes through `transmuter edit` three times: unedited (the bytes must be the same), with all weights
inside, and edited without changing what it computes, every second time with the weights in a file beside it (onnx.checker
must take that where it takes the original). The rewritten cases then run through `transmuter test`; those that pass
must be the ones that pass as they are. The last line is `N passed, N failed`.
"""
import argparse
import filecmp
import json
import pathlib
import shutil
import subprocess
import sys

import onnx


def run(program, *arguments):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)


def model_name(case):
    meta = case / "meta.json"
    if meta.exists():
        return json.loads(meta.read_text()).get("model", "model.onnx")
    return "model.onnx"


def checker_says(path):
    try:
        onnx.checker.check_model(str(path))
        return ""
    except Exception as error:  # noqa: BLE001: the checker throws many kinds
        return str(error) or type(error).__name__


def rewrite(program, case, target, external):
    """A copy of the case with a rewritten model; returns what went wrong, or ''; None: the program refuses to edit."""
    target.mkdir(parents=True)
    for item in case.iterdir():
        if item.name != "model.onnx":
            (target / item.name).symlink_to(item.resolve())
    source = case / model_name(case)
    if source.parent != case:
        return None
    written = target / source.name
    written.unlink(missing_ok=True)

    def fault(result):
        # What cannot be loaded cannot be edited either.
        return None if run(program, "inspect", source).returncode else result.stderr.strip()

    plain = target / "plain.onnx"
    result = run(program, "edit", source, "-o", plain)
    if result.returncode and "would not find it" not in result.stderr:
        return fault(result)
    if result.returncode == 0:
        if not filecmp.cmp(source, plain, shallow=False):
            return "the unedited model was written as other bytes"
        plain.unlink()
    result = run(program, "edit", source, "-o", target / "same.onnx", "--embed-data")
    if result.returncode:
        return fault(result)
    arguments = ["--set-metadata", "written=anew", "--external-data", "--external-from", "16"] if external else \
        ["--set-metadata", "written=anew", "--embed-data"]
    result = run(program, "edit", target / "same.onnx", *arguments, "-o", written)
    (target / "same.onnx").unlink()
    if result.returncode:
        return fault(result)
    after = checker_says(written)
    if after and not checker_says(source):
        return f"onnx.checker: {after}"
    return ""


def outcomes(program, folder, work, exceptions):
    report = work / f"{folder.parent.name}-{folder.name}.json"
    result = run(program, "test", folder, "--skip-unsupported", "--threads", "1", "--report", report,
                 *(["--exceptions", exceptions] if exceptions else []))
    if not report.exists():
        sys.exit(f"no report of {folder}: {result.stderr}")
    return {entry["case"]: (entry["passed"], entry["reason"]) for entry in json.loads(report.read_text())}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("suites", nargs="+")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--exceptions", default="")
    options = parser.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    passed, failed = 0, 0
    for suite in options.suites:
        cases = [p for p in sorted((options.cases / suite).iterdir()) if (p / model_name(p)).is_file()][::options.every]
        rewritten, originals = options.work / "rewritten" / suite, options.work / "original" / suite
        originals.mkdir(parents=True)
        for i, case in enumerate(cases):
            fault = rewrite(options.program, case, rewritten / case.name, external=i % 2 == 1)
            if fault:
                print(f"FAIL {suite}/{case.name}: {fault}")
                failed += 1
            if fault is None or fault:
                shutil.rmtree(rewritten / case.name)
            else:
                (originals / case.name).symlink_to(case.resolve())
        before = outcomes(options.program, originals, options.work, options.exceptions)
        after = outcomes(options.program, rewritten, options.work, options.exceptions)
        for name in sorted(before):
            if before[name][0] and not after.get(name, (False, "it did not run"))[0]:
                print(f"FAIL {name}: passes as it was, rewritten: {after.get(name)}")
                failed += 1
            else:
                passed += 1
    shutil.rmtree(options.work)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
