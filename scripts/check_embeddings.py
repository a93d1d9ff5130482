#!/usr/bin/env python3
"""Compares `transmuter embed` on the real all-MiniLM-L6-v2 with known similarities.

    check_embeddings.py TRANSMUTER MODEL_FOLDER [BACKEND]

The expected numbers come from ONNX Runtime (optimisations off) and the Python package tokenizers. The last text is longer
than the 256 tokens the model takes and not ASCII: truncation and byte handling count.
"""
import json
import subprocess
import sys

TEXTS = [
    "A cat is sleeping on the sofa.",
    "A kitten naps on the couch.",
    "The stock market fell sharply today.",
    "Shares dropped on Wall Street this afternoon.",
    "Zürich café naïve 日本語 😀 " * 60,
]
SIMILARITIES = [
    [1.00000, 0.73735, -0.00810, -0.06294, 0.03839],
    [0.73735, 1.00000, 0.02863, 0.00405, 0.05042],
    [-0.00810, 0.02863, 1.00000, 0.57515, 0.07222],
    [-0.06294, 0.00405, 0.57515, 1.00000, 0.06599],
    [0.03839, 0.05042, 0.07222, 0.06599, 1.00000],
]
TOLERANCE = 2e-5  # the numbers above are rounded to five places


def main():
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    program, folder, *backend = sys.argv[1:]
    command = [program, "embed", folder, "--json", "--backend", *(backend or ["cpu"])]
    for text in TEXTS:
        command += ["--text", text]
    got = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["similarities"]
    worst = max(abs(a - b) for row, expected in zip(got, SIMILARITIES, strict=True)
                for a, b in zip(row, expected, strict=True))
    print(f"largest difference {worst:.1e}, allowed {TOLERANCE:.0e}")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
