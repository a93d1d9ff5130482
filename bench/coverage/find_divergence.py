#!/usr/bin/env python3
"""Finds the first node at which transmuter and ONNX Runtime (no optimizations) differ.

    find_divergence.py PROGRAM CASE [CASE ...]              each data set of a case folder
    find_divergence.py PROGRAM MODEL.onnx --data-set DIR    any model with inputs in ONNX's layout

Every value of the main graph is made an output on both sides and compared in the nodes' order.  If, Loop and Scan are written
out first (the branch that is taken, each trip), so nodes inside are named, too; where the outputs differ only while nothing is
given out, what fusing did is searched for value by value.  The first node that differs is then run alone on ONNX Runtime's own
values: "alone it differs" means that the node itself is at fault, "alone it agrees" that it makes larger what came before.

Floats are compared relative to the value's own size (see --rtol, --atol), integers exactly (--int-atol).  With an operator
by operator run (--eager) or another --backend it tells whether a pass, a kernel or a lowering is at fault.

Exit status: 0 nothing differs, 1 something does, 2 a side could not run.
"""
import argparse
import json
import pathlib
import sys

from lib import both, walk
from lib.cases import Case, find_cases
from lib.compare import difference
from lib.unfold import unfold


def report(place, model):
    lines = [f"  first difference: {place.label}, value {place.value}", f"    {place.difference}"]
    if place.alone == "":
        lines.append("    it cannot be run alone (control flow, or values that are no plain tensors)")
    elif place.alone is None:
        lines.append("    alone, on ONNX Runtime's values, it agrees: it makes larger what came before")
    elif isinstance(place.alone, str):
        lines.append(f"    alone: {place.alone}")
    else:
        lines.append(f"    alone, on ONNX Runtime's values, it differs: {place.alone}")
    lines.append(f"    reads {', '.join(n for n in place.node.input if n)}")
    return lines


def as_json(place):
    d = place.difference
    return {"node": both.node_label(place.node, place.position), "op": place.node.op_type, "domain": place.node.domain,
            "value": place.value, "count": d.count, "of": d.total, "index": list(d.index), "expected": str(d.want),
            "got": str(d.got), "times_allowed": d.excess, "note": d.note,
            "alone": None if place.alone is None else str(place.alone)}


def examine(options, model, feeds, tolerance, outputs_tolerance):
    """(lines, places, whether a side failed)."""
    arguments = options.arguments
    outputs = [o.name for o in model.graph.output]
    parts = unfold(model, feeds) if any(walk.holds_graph(n) for n in model.graph.node) else model
    places, count, error = walk.compare_all(options.program, parts, feeds, arguments, tolerance, options.skip)
    if error:
        # The model with all values given out is another one: does it run as it is?
        return [f"  transmuter: {error}"], [], True
    if not places and parts is not model:
        places, folded, error = walk.compare_all(options.program, model, feeds, arguments, tolerance, options.skip)
        count = max(count, folded)
        if error:
            return [f"  transmuter, with its control flow: {error}"], [], True
        if places:
            parts = model
    lines = []
    if not places:
        want = both.run_ort(model, feeds, outputs)
        try:
            got = both.run_ours(options.program, model, feeds, arguments, outputs)
        except both.Failed as failure:
            return [f"  transmuter: {failure}"], [], True
        wrong = [(n, difference(want[n], got.get(n), *outputs_tolerance(n))) for n in outputs]
        wrong = [(n, d) for n, d in wrong if d]
        if not wrong:
            return [f"  all {count} values agree"], [], False
        lines.append(f"  output {wrong[0][0]} differs ({wrong[0][1]}), yet no value does once all are given out")
        place = walk.search_fused(options.program, model, feeds, arguments, tolerance, outputs)
        if not place:
            return lines + ["  given out one by one no value differs either"], [], True
        places = [place]
    first = places[0]
    first.alone = walk.differs_alone(options.program, parts, first, feeds, arguments, tolerance)
    lines += report(first, parts)
    lines.append(f"    {len(places)} of {count} values differ")
    for place in places[1:options.list]:
        lines.append(f"    then {place.label}: {place.difference}")
    return lines, places, False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path, help="transmuter")
    parser.add_argument("cases", nargs="+", help="case folders, folders of such, or one model")
    parser.add_argument("--data-set", type=pathlib.Path, help="inputs for a model that is no case")
    parser.add_argument("--sets", type=int, nargs="*", help="only these data sets of each case")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--eager", action="store_true", help="operator by operator on our side")
    parser.add_argument("--no-passes", action="store_true")
    parser.add_argument("--compute-type", default="f32", choices=["f32", "native"])
    parser.add_argument("--rtol", type=float, help="of floats (1e-3; halves 2e-2)")
    parser.add_argument("--atol", type=float, help="of floats (1e-4 of the value's typical size; halves 1e-2)")
    parser.add_argument("--int-atol", type=float, default=0)
    parser.add_argument("--skip", nargs="*", default=[], help="nodes not to report, by a part of their name")
    parser.add_argument("--list", type=int, default=1, help="show so many differing values")
    parser.add_argument("--json", action="store_true", help="one JSON object a data set")
    options = parser.parse_args()
    options.arguments = ["--backend", options.backend, "--threads", "1", "--compute-type", options.compute_type]
    options.arguments += ["--eager"] * options.eager + ["--no-passes"] * options.no_passes

    jobs = []
    if options.data_set:
        case = Case(pathlib.Path(options.cases[0]).parent)
        case.path = pathlib.Path(options.cases[0])
        jobs.append((case, [options.data_set]))
    else:
        jobs = [(case, case.data_sets()) for case in find_cases(options.cases)]
    if not jobs:
        parser.error(f"no case in {' '.join(options.cases)}")
    status = 0
    for case, sets in jobs:
        model = both.load(case.path)
        for position, folder in enumerate(sets):
            if options.sets and position not in options.sets:
                continue
            title = f"{case.name}, {folder.name}"
            tolerance = (options.rtol, options.atol, options.int_atol)
            try:
                feeds = case.read(model, folder)
                lines, places, failed = examine(options, model, feeds, tolerance,
                                                lambda name: case.tolerance(position, name))
            except Exception as error:  # of ONNX Runtime, or a file that is broken
                lines, places, failed = [f"  ONNX Runtime: {str(error).splitlines()[0][:300]}"], [], True
            status = max(status, 2 if failed else 1 if places else 0)
            if options.json:
                found = as_json(places[0]) if places else None
                print(json.dumps({"case": title, "first": found, "differing": len(places),
                                  "failed": lines[-1].strip() if failed else ""}))
            else:
                print("\n".join([title, *lines]))
            sys.stdout.flush()
    sys.exit(status)


if __name__ == "__main__":
    main()
