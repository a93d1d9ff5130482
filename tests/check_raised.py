"""Checks that the passes still recognise in the real models what they did: tests/raised.json has, for each case, how
many composites its first trace has after raising. Fewer of one fails; more is announced, and recorded with --update.

    check_raised.py REPORT.json ... [--update]        reports that `transmuter test --report` wrote
"""

import argparse
import json
import pathlib
import sys

TABLE = pathlib.Path(__file__).parent / "raised.json"
# Softmax isn't counted: attention takes it in.
COUNTED = ("attention", "gelu", "group_norm", "layer_norm", "rms_norm", "rotary_embedding", "silu")


def counts(report):
    return {name: n for name, n in sorted(report["composites"].items()) if name in COUNTED}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=pathlib.Path)
    parser.add_argument("--update", action="store_true", help="record what the reports say")
    arguments = parser.parse_args()
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    now = {}
    for path in arguments.reports:
        for report in json.loads(path.read_text()):
            if report["passed"]:  # a case that fails is counted as failed elsewhere
                now[report["case"]] = counts(report)
    lost = gained = 0
    for case, found in sorted(now.items()):
        wanted = table.get(case, {})
        for name in COUNTED:
            have, want = found.get(name, 0), wanted.get(name, 0)
            lost += have < want
            gained += have > want
            if have != want and not arguments.update:
                print(f"{case}: {have} {name}, {'was' if have > want else 'wanted'} {want}")
    if arguments.update:
        table.update(now)
        lines = (f"{json.dumps(case)}: {json.dumps(found)}" for case, found in sorted(table.items()) if found)
        TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        return 0
    if gained:
        print(f"{gained} counts have grown: record them with --update")
    print(f"{len(now)} cases, {lost} counts have dropped")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
