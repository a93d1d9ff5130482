#!/usr/bin/env python3
"""Compares how the model cases were traced with tests/traces.json: more traces, breaks or specialisations fail.

usage: check_traces.py [--update] REPORT.json …     (reports of `transmuter test --report`)

A case takes one trace for each kind of input it is fed: 0, 1 and more are three kinds of an extent, a bool is two, and a
guard that an operator needs splits them further. What the table lists has been looked at; a new break, a pinned size or
a further trace is a fault of a rule, unless --update and a reviewer say otherwise.

tests/breaks.json says of every graph break which node it is and why it stays. A break that it does not list fails, and so
does a listed one that no longer happens.
"""
import json
import pathlib
import sys

TABLE = pathlib.Path(__file__).resolve().parent / "traces.json"
BREAKS = TABLE.with_name("breaks.json")
COUNTS = ("traces", "breaks", "specializations")


def read(paths):
    found, broken = {}, {}
    for path in paths:
        for entry in json.loads(pathlib.Path(path).read_text()):
            if entry["passed"]:
                case = "/".join(entry["case"].split("/")[-2:])
                found[case] = [entry[count] for count in COUNTS]
                broken[case] = set(entry.get("broken", []))
    return found, broken


def check_breaks(broken):
    """Complaints about breaks that are not as breaks.json says."""
    listed = json.loads(BREAKS.read_text())
    complaints = []
    for case, nodes in sorted(broken.items()):
        known = listed.get(case, {})
        complaints += [f"{case}: {node} breaks; breaks.json does not say why" for node in sorted(nodes - known.keys())]
        complaints += [f"{case}: {node} breaks no more; breaks.json lists it" for node in sorted(known.keys() - nodes)]
    return complaints


def update(table, found):
    table.update(found)
    lines = ",\n".join(f"  {json.dumps(case)}: {json.dumps(counts)}" for case, counts in sorted(table.items()))
    TABLE.write_text("{\n" + lines + "\n}\n")


def main(arguments):
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    found, broken = read(a for a in arguments if a != "--update")
    if "--update" in arguments:
        update(table, found)
        return 0
    complaints = check_breaks(broken)
    for complaint in complaints:
        print(f"FAIL {complaint}")
    failed = 0
    for case, counts in sorted(found.items()):
        if case not in table:
            print(f"FAIL {case}: not in traces.json; {dict(zip(COUNTS, counts))}")
            failed += 1
            continue
        grown = [f"{name} {was} -> {now}" for name, was, now in zip(COUNTS, table[case], counts) if now > was]
        if grown:
            print(f"FAIL {case}: {', '.join(grown)}")
            failed += 1
    print(f"{len(found) - failed} passed, {failed} failed")
    return 1 if failed or complaints else 0


sys.exit(main(sys.argv[1:]))
