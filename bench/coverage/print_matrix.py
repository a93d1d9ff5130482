#!/usr/bin/env python3
"""Writes guides/coverage.md of what run_cases.py found.

    print_matrix.py results.json [results.json ...] > guides/coverage.md
"""
import argparse
import collections
import json
import pathlib

HEAD = """# Coverage

Written by `bench/coverage/print_matrix.py` of what `bench/coverage/run_cases.py` ran: models as exporters write them, each with
several data sets of different sizes through one compiled model, beside recorded results. A case passes within the tolerance
that its `meta.json` names; *excepted* are those of `tests/exceptions.txt`, each with its reason below.

*Share* is the worst error in parts of what the tolerance allows, over all cases of the row that pass. *Traces* and *breaks* are
those of the cpu backend, summed over the row's cases: a trace for each kind of inputs (first step and later ones, both branches
of a merged decoder), a break where the graph asks for a value that only the run knows.
"""
SUITES = {
    "zoo": "small models that a clone carries with it (`bench/coverage/make_zoo.py`)",
    "zoo_text": "tiny models of text architectures as Optimum, torch and onnxruntime-genai export them",
    "zoo_vision": "the same for vision, audio, diffusion, multimodal and tabular models",
    "real": "trained models that packages ship (`tests/real_models.json`)",
    "real_e2e": "several models, or one again and again: streaming, greedy decoding",
}


LOOKED = """Each was gone through with `bench/coverage/find_divergence.py`, every value inside beside ONNX Runtime's on a processor
with VNNI. Where stored sums of bytes saturated, every value agrees there. Halves: every value agrees with `--compute-type native`.
Ties and sines: the first difference is a single element, its node agrees on ONNX Runtime's own inputs, and none differs once all
values are given out. The window of GroupQueryAttention differs in rows of padding alone; the experts of eight bits by 1.4 %
(relative L2 of the node alone), which is the rounding of activations that ONNX Runtime does there."""


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]


def counts(rows, backend):
    """"12", or "11 + 1 excepted" for those that do not pass."""
    here = [r for r in rows if r["backend"] == backend]
    if not here:
        return "–"
    found = collections.Counter(r["status"] for r in here)
    text = str(found["passed"])
    return text + "".join(f" + {found[s]} {s}" for s in ("excepted", "failed") if found[s])


def share(rows):
    worst = [r["share"] for r in rows if r["status"] == "passed" and isinstance(r["share"], (int, float))]
    return f"{max(worst):.2g}" if worst and max(worst) >= 0.005 else "0" if worst else "–"


def row_of(rows, backends):
    first = [r for r in rows if r["backend"] == backends[0]]
    total = [sum(r[what] for r in first if r[what] is not None) for what in ("traces", "breaks")]
    return [len({r["case"] for r in rows}), *(counts(rows, b) for b in backends), share(rows), *total]


def grouped(rows, key):
    groups = collections.defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return sorted(groups.items(), key=lambda item: tuple(str(k).lower() for k in item[0]))


def family(row):
    """Architectures as cases name them say the precision, too."""
    name = row["architecture"]
    for word in (" uint8", " fp16", " q4f16", " q4", " bnb4", " int8", " (uint8)", " QDQ", " dynamic"):
        name = name.replace(word, "")
    return name.strip() or row["architecture"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    rows = [row for path in options.results for row in json.loads(path.read_text())]
    backends = [b for b in ("cpu", "reference", "pjrt") if any(r["backend"] == b for r in rows)]
    columns = ["Cases", *backends, "Share", "Traces", "Breaks"]
    out = [HEAD, "## Suites", ""]
    out += table(["Suite", *columns], [[s, *row_of(r, backends)] for (s,), r in grouped(rows, lambda r: (r["suite"],))])
    out += ["", *(f"- **{name}**: {what}." for name, what in SUITES.items() if any(r["suite"] == name for r in rows))]
    out += ["", "## Precisions", ""]
    out += table(["Precision", *columns], [[p, *row_of(r, backends)] for (p,), r in grouped(rows, lambda r: (r["precision"],))])
    excepted = [r for r in rows if r["status"] != "passed"]
    out += ["", "## What does not pass", "", LOOKED, ""]
    if excepted:
        out += table(["Case", "Backends", "Why", "Found"],
                     [[case, ", ".join(sorted({r["backend"] for r in group})), group[0]["exception"] or "**unexplained**",
                       group[0]["reason"].replace("|", "/")] for (case,), group in grouped(excepted, lambda r: (r["case"],))])
    else:
        out.append("Nothing.")
    for suite in SUITES:
        here = [r for r in rows if r["suite"] == suite]
        if not here:
            continue
        out += ["", f"## {suite}", ""]
        out += table(["Architecture", "Precision", *columns],
                     [[*key, *row_of(group, backends)] for key, group in grouped(here, lambda r: (family(r), r["precision"]))])
    print("\n".join(out))


if __name__ == "__main__":
    main()
