#!/usr/bin/env bash
# Speed beside ONNX Runtime: makes the models (random weights, a minute), then alternates both engines and prints ratios.
#   bench.sh                      the five models of the README's table, 2 threads
#   bench.sh --only NAME …        others of bench/side_by_side/make_bench_models.py --list; further options go to compare.py
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
scripts/bootstrap.sh --tests
use_python
configure_and_build release
names=(minilm-l6 bert-base resnet50 mobilenet-v2 vit-small-16)
models=$build/bench_models
options=("$@")
if [ ${#options[@]} = 0 ]; then options=(--only "${names[@]}" --rounds 6); fi
[ -f "$models/models.json" ] || "$python" bench/side_by_side/make_bench_models.py "$models" "${names[@]}"
"$python" bench/side_by_side/compare.py --transmuter "$build/release/bin/transmuter" --models "$models" --threads 2 "${options[@]}"
