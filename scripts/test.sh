#!/usr/bin/env bash
# Tests everything that this checkout can test, from nothing: installs what is missing, builds, runs the unit tests, then
# the conformance cases through `transmuter test`. The last line is `N passed, N failed[, N skipped]`.
#   test.sh          unit tests and every suite on the cpu backend; the operator suites on the reference backend too
#   test.sh --fast   unit tests and the operator suites on the cpu backend
#   test.sh --full   every suite on every backend, passes on and off, and operator by operator
#   test.sh --slow   as --full, and the real models on the reference backend
# Cases come from: the pinned onnx package (node), tests/data (op_cases, made by tests/make_op_cases.py, and zoo, made by
# bench/coverage/make_zoo.py), the packages that ship
# the real models (fetched), and for the other suites from archives in $TRANSMUTER_CASE_ARCHIVES or ../shared/cases; a suite that isn't there is skipped with a line.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

mode=default
for argument; do
  case $argument in
    --fast | --full | --slow) mode=${argument#--} ;;
    *) die "usage: test.sh [--fast | --full | --slow]" ;;
  esac
done

cases=$build/cases
archives=${TRANSMUTER_CASE_ARCHIVES:-$root/../shared/cases}
export TRANSMUTER_CASES=$cases TRANSMUTER_CASE_ARCHIVES=$archives  # for the unit tests that read whole suites
program=$build/release/bin/transmuter
operator_suites=(node op_cases ops_variants ops_contrib traps malformed)
model_suites=(zoo zoo_text zoo_vision)

# unpack SUITE : true if its cases are in $cases now
unpack() {
  local archive=$archives/$1.tar.xz
  [ ! -f "tests/data/$1.tar.xz" ] || archive=tests/data/$1.tar.xz
  local mark=$cases/.$1.size_and_time want
  [ -f "$archive" ] || return 1
  want=$(stat -L -c '%s %Y' "$archive")
  if [ "$(cat "$mark" 2>/dev/null || true)" != "$want" ]; then
    rm -rf "${cases:?}/$1"
    tar -xJf "$archive" -C "$cases" --no-same-owner
    printf '%s\n' "$want" >"$mark"
  fi
}

# has_package MODULE REQUIREMENT : the Python package is there, or can be had
has_package() {
  "$python" -c "import $1" 2>/dev/null ||
    { "$python" -m pip install --quiet --disable-pip-version-check "$2" && "$python" -c "import $1"; } >/dev/null 2>&1
}

fetch_real() { "$python" scripts/fetch_models.py --cases --cache "$build/packages" "$cases/real"; }

# conformance NAME SUITE [ARGUMENT …] : one suite through the program; a folder that isn't there was announced before
conformance() {
  local name=$1 suite=$2 log status=0 passed failed skipped
  shift 2
  [ -d "$cases/$suite" ] || return 0
  log=$build/test-logs/${name//[^a-z0-9_]/-}.txt
  mkdir -p "$build/test-logs"
  # The limit on memory turns a runaway into an error of one case.
  (
    ulimit -v 12000000
    "$program" test --jobs "$(nproc)" --threads 1 --skip-unsupported --exceptions tests/exceptions.txt "$@" "$cases/$suite"
  ) >"$log" 2>&1 || status=$?
  read_counts "$log" "$status"
  local floor key=$suite
  [[ $name == *" on pjrt"* ]] && key=pjrt/$suite
  [[ $name == *", eager" ]] && grep -q "^eager/$suite " tests/floors.txt && key=eager/$suite
  floor=$(awk -v key="$key" '$1 == key { print $2 }' tests/floors.txt)
  if [ "$passed" -lt "${floor:-0}" ]; then
    printf '   %s: %s cases pass, tests/floors.txt says %s\n' "$name" "$passed" "$floor"
    failed=$((failed + 1))
  fi
  if [ "$failed" != 0 ]; then
    printf '   the last lines of %s:\n' "${log#"$root"/}"
    tail -n 40 "$log" | cut -c1-300
  fi
  tally "$name" "$passed" "$failed" "${skipped:-0}"
}

# stablehlo NAME ARGUMENT … : printed programs through a reader that isn't ours
stablehlo() {
  local name=$1 log=$build/test-logs/stablehlo-${1//[^a-z0-9_]/-}.txt status=0 passed failed skipped
  shift
  mkdir -p "$build/test-logs"
  "$python" tests/stablehlo_parse.py "$@" >"$log" 2>&1 || status=$?
  read_counts "$log" "$status"
  [ "$failed" = 0 ] || tail -n 40 "$log" | cut -c1-300
  tally "StableHLO of $name" "$passed" "$failed" "${skipped:-0}"
}

# The backend of PJRT plugins, on XLA's for CPUs: what every backend must hold, the traps, and node cases operator by
# operator; more with --full. Compiling takes most of the time.
on_pjrt() {
  local plugin=$build/pjrt/cpu/pjrt_c_api_cpu_plugin.so old=$build/pjrt/old/xla_cpu_pjrt.so suite name
  if ! "$python" scripts/fetch_pjrt.py "$build/pjrt"; then
    say "no PJRT plugin could be fetched: the backend pjrt is not tested"
    return
  fi
  export TRANSMUTER_PJRT_CACHE=off TF_CPP_MIN_LOG_LEVEL=2
  for name in "$plugin" "$old"; do
    TRANSMUTER_PJRT_PLUGIN=$name gtest "contract on $(basename "$name")" \
      "$build/release/bin/unit_tests" --gtest_filter='*/pjrt:Pjrt*'
  done
  conformance "traps on pjrt" traps --backend "pjrt:$plugin"
  rm -rf "$cases/pjrt_eager" "$cases/pjrt_old"
  mkdir -p "$cases/pjrt_eager" "$cases/pjrt_old"
  for name in $(grep -v '^#' tests/pjrt_eager.txt); do ln -s "../node/$name" "$cases/pjrt_eager/$name"; done
  for name in "$cases"/node/test_softmax_*; do ln -s "../node/${name##*/}" "$cases/pjrt_old/${name##*/}"; done
  conformance "cases on pjrt, an older plugin" pjrt_old --backend "pjrt:$old"
  conformance "cases on pjrt, eager" pjrt_eager --backend "pjrt:$plugin" --eager
  [ $mode = default ] && return
  for suite in node op_cases ops_variants ops_contrib "${model_suites[@]}"; do
    conformance "$suite on pjrt" "$suite" --backend "pjrt:$plugin"
  done
}

scripts/bootstrap.sh --tests
use_python
begin_tally

say "conformance cases"
mkdir -p "$cases"
"$python" scripts/make_node_cases.py "$cases/node"
for suite in "${operator_suites[@]:1}" "${model_suites[@]}"; do
  unpack "$suite" || say "no $suite.tar.xz in $archives: suite $suite is skipped"
done

say "building (release)"
configure_and_build release

say "unit tests"
check layers "$python" scripts/check_layers.py
rm -rf "$build/printed"
mkdir -p "$build/printed"
TRANSMUTER_PRINT_DIR=$build/printed gtest "unit tests" "$build/release/bin/unit_tests"
gtest "memory that runs out" "$build/release/bin/fault_tests"
stablehlo "the unit tests' programs" --run "$build/printed"
check "install and find_package" tests/install/check.sh

say "conformance"
rm -f "$build"/test-logs/*-on-*.txt  # of runs before
if ! [ -x "$program" ] || ! "$program" test --help >/dev/null 2>&1; then
  say "no transmuter program in this build: the suites are left out"
  end_tally
  exit
fi

check "guides/supported_operators.md is current" \
  bash -c '"$1" ops --markdown | diff - guides/supported_operators.md' - "$program"
for suite in "${operator_suites[@]}"; do conformance "$suite on cpu" "$suite" --backend cpu; done
[ $mode != fast ] || conformance "zoo on cpu" zoo --backend cpu
check "guide graph_edits" "$python" tests/check_guides.py "$program" guides/graph_edits.md "$build/guide"
for guide in language_models pipelines telemetry; do
  check "guide $guide" "$python" tests/check_guides.py "$program" "guides/$guide.md" "$build/guide"
done
check "generation" "$python" tests/check_generation.py "$program"
check "trace file" bash -c '"$1" run "$2/model.onnx" --data-set "$2/test_data_set_0" --trace "$3" >/dev/null &&
  "$4" tests/check_trace_file.py "$3" load trace compile bind run segment stage step memory miss' \
  - "$program" "$cases/node/test_softmax_example" "$build/test-logs/trace.json" "$python"
# Beside its official client, where that can be had.
has_package huggingface_hub "huggingface_hub>=1,<3" ||
  say "no huggingface_hub: the hub's cache is not compared with its own client"
check "hub" "$python" tests/check_hub.py "$program" "$build/hub" --kills "$([ $mode = fast ] && echo 5 || echo 50)"
check "the exceptions' proofs" "$python" tests/prove_exceptions.py "$cases/node"
# round_trip SUITE EVERY : models written anew are the same models
round_trip() {
  [ -d "$cases/$1" ] || return 0
  check "$1 written anew" "$python" tests/check_round_trip.py "$program" "$cases" "$build/round_trip" "$1" \
    --every "$2" --exceptions tests/exceptions.txt
}
if [ $mode = fast ]; then
  round_trip node 40
elif [ $mode = default ]; then
  for suite in node traps "${model_suites[@]}"; do round_trip "$suite" 10; done
else
  for suite in node traps malformed "${model_suites[@]}"; do round_trip "$suite" 1; done
fi

if [ $mode != fast ]; then
  folders=()
  for suite in node ops_variants ops_contrib traps "${model_suites[@]}"; do
    [ -d "$cases/$suite" ] && folders+=("$cases/$suite")
  done
  stablehlo "the cases" --program "$program" --exceptions tests/stablehlo_exceptions.txt "${folders[@]}"
  reports=()
  for suite in "${model_suites[@]}"; do
    [ -d "$cases/$suite" ] && reports+=("$build/test-logs/$suite.json")
    conformance "$suite on cpu" "$suite" --backend cpu --report "$build/test-logs/$suite.json"
  done
  if [ ${#reports[@]} -gt 0 ]; then
    check "raised composites" "$python" tests/check_raised.py "${reports[@]}"
    check "traces" "$python" tests/check_traces.py "${reports[@]}"
  fi
  for suite in "${model_suites[@]}"; do
    conformance "$suite on cpu, 1, 2 and 3 threads" "$suite" --backend cpu --compare-threads 1,2,3
  done
  for backend in cpu reference; do
    check "every dtype that the schemas allow, on $backend" "$python" tests/check_types.py "$program" "$cases/node" \
      "$build/type-cases" --keep --backend "$backend"
  done
  check "spoiled nodes: one error each" "$python" tests/check_bad_input.py "$program" "$cases/node" "$build/spoiled-cases"
  for suite in "${operator_suites[@]}" zoo; do conformance "$suite on reference" "$suite" --backend reference; done
  if "$python" -c 'import onnxruntime' 2>/dev/null; then
    check "coverage scripts" "$python" bench/coverage/tests/check_coverage.py "$program" "$build/coverage"
  fi
  conformance "node on cpu, eager" node --backend cpu --eager
  if "$python" scripts/fetch_minilm.py "$build/models/all-MiniLM-L6-v2"; then
    for backend in cpu reference; do
      check "all-MiniLM-L6-v2 on $backend" \
        "$python" scripts/check_embeddings.py "$program" "$build/models/all-MiniLM-L6-v2" $backend
    done
  fi
  # Real tokenizers beside their own package, where that can be had.
  if has_package tokenizers tokenizers==0.22.2; then
    check tokenizers "$python" tests/check_tokenizers.py "$program" "$build/tokenizers"
  fi
  tests/examples/check.sh || tally examples 0 1 0  # its steps are in the tally already
  if [ -f "$build/models/all-MiniLM-L6-v2/model.onnx" ]; then
    if has_package jax jax==0.10.2; then
      check "an export in JAX" "$python" examples/jax/run_exported.py "$program" \
        "$build/models/all-MiniLM-L6-v2/model.onnx" "input_ids=[[101, 7592, 2088, 102]]" \
        "attention_mask=[[1, 1, 1, 1]]" "token_type_ids=[[0, 0, 0, 0]]"
    else
      say "no jax: the example with an export is skipped"
    fi
  fi
  on_pjrt
  if unpack real && fetch_real; then
    conformance "real models on cpu" real --backend cpu
  else
    say "not every real model could be fetched: suite real is skipped"
  fi
fi
if [ $mode = full ] || [ $mode = slow ]; then
  for suite in "${operator_suites[@]}" "${model_suites[@]}"; do
    conformance "$suite on cpu, passes off" "$suite" --backend cpu --no-passes
  done
  for suite in ops_variants traps "${model_suites[@]}"; do
    conformance "$suite on cpu, eager" "$suite" --backend cpu --eager
  done
  if "$python" -c 'import onnxruntime' 2>/dev/null; then
    rm -rf "$build/ml-cases"
    check "labels and maps against ONNX Runtime" \
      "$python" tests/ml_against_onnxruntime.py "$program" "$build/ml-cases"
  fi
  for suite in zoo_text zoo_vision; do conformance "$suite on reference" "$suite" --backend reference; done
fi
if [ $mode = slow ]; then
  conformance "real models on reference" real --backend reference
fi
check "guides/conformance.md is current" "$python" scripts/make_conformance.py --check "$build/test-logs"
end_tally
