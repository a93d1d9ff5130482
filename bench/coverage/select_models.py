#!/usr/bin/env python3
"""Chooses of what list_models.py lists: as few and as small models as show every kind.

    list_models.py --cases build/cases/zoo_text | select_models.py --megabytes 30 [--count N]

Each model shows things: its architecture, its precision, both together, its exporter, its operators.  The model that adds
most for its size comes next, until nothing is new or the budget is spent.  Prints the chosen lines, in that order.
"""
import argparse
import json
import sys


def shown(model):
    things = {("architecture", model["architecture"]), ("precision", model["precision"]),
              ("both", model["architecture"], model["precision"]), ("exporter", model["exporter"])}
    return things | {("operator", o) for o in model.get("operators", [])}


def select(models, limit_bytes, count):
    left = {i: shown(m) for i, m in enumerate(models)}
    known, spent, chosen = set(), 0, []
    while left and len(chosen) < count:
        def gain(i):
            new = len(left[i] - known)
            return new / (1 + (models[i].get("bytes") or 0) / 1e6), models[i].get("downloads", 0), -i

        best = max(left, key=gain)
        size = models[best].get("bytes") or 0
        if not left[best] - known:
            break
        if spent + size <= limit_bytes:
            chosen.append(models[best])
            known |= left[best]
            spent += size
        del left[best]
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=30)
    parser.add_argument("--count", type=int, default=10**9)
    options = parser.parse_args()
    models = [json.loads(line) for line in sys.stdin if line.strip()]
    chosen = select(models, options.megabytes * 1e6, options.count)
    for model in chosen:
        print(json.dumps(model))
    print(f"{len(chosen)} of {len(models)} models, {sum(m.get('bytes') or 0 for m in chosen) / 1e6:.1f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
