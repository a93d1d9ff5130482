#!/usr/bin/env bash
# Fuzzes under the address and undefined-behaviour sanitizers; fails on the first crash, hang or runaway allocation, and leaves
# the input in build/fuzz/crashes.
#   fuzz.sh [EXECUTIONS [TARGET]]     200000 of each target when not given
# TARGET: `reader` (models, values and .npy files, edits and the writer) or `model` (read, traced and run by the reference;
# fuzz/mutate.h changes models so that they stay models). Seeds are what fuzz/corpus.tar.xz keeps, the models of the cases in
# $TRANSMUTER_CASES (folders, unpacked) or build/cases, and what earlier runs found in build/fuzz/corpus.
#   fuzz.sh --variants [SEEDS]        runs the seeds spoiled one thing at a time (fuzz/make_variants.py), 2 seeds of each kind
#                                     of model when not given
#   fuzz.sh --keep                    writes fuzz/corpus.tar.xz anew: of all that was found, as little as reaches as much
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
executions=${1:-200000} targets=(${2:-reader model})
command -v clang++ >/dev/null || die "clang++ is needed (apt-get install clang)"

cases=${TRANSMUTER_CASES:-$build/cases}
[ -d "$cases/node" ] || cases=$build/cases
tree=$build/fuzz
mkdir -p "$tree"/{corpus,kept,seeds}/{reader,model} "$tree/crashes"
[ ! -f fuzz/corpus.tar.xz ] || tar -xJf fuzz/corpus.tar.xz -C "$tree/kept"

# Stacks of the whole depth for each allocation take a fifth of the time.
export ASAN_OPTIONS=${ASAN_OPTIONS:-malloc_context_size=2} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

say "building (fuzz)"
cmake -S . -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
  -DTRANSMUTER_FUZZ=ON -DTRANSMUTER_TEXT=OFF -DTRANSMUTER_HUB=OFF -DTRANSMUTER_CLI=OFF -DTRANSMUTER_EXAMPLES=OFF \
  -DTRANSMUTER_TESTS=OFF >"$tree/configure.log" 2>&1 || {
  cat "$tree/configure.log" >&2
  die "configuring failed"
}
cmake --build "$tree" --target reader_fuzz --target model_fuzz -j"${JOBS:-$(nproc)}"

# limits NAME : how large an input of this target may be, and how long an execution
# A table of rare features (-entropic) and counters take nine tenths of the time here; a change of mutate.h is several.
limits() {
  [ "$1" = model ] && echo -max_len=8192 -timeout=60 -mutate_depth=1 || echo -max_len=16384 -timeout=60
  echo -entropic=0 -use_counters=0
}

if [ "$executions" = --keep ]; then
  rm -rf "$tree/merged"
  for target in reader model; do
    mkdir -p "$tree/merged/$target"
    "$tree/bin/${target}_fuzz" -merge=1 $(limits $target) -rss_limit_mb=4096 "$tree/merged/$target" "$tree/kept/$target" \
      "$tree/corpus/$target" "$tree/seeds/$target" 2>&1 | tail -n 1
  done
  tar -C "$tree/merged" --sort=name --owner=0 --group=0 --mtime=@0 -c reader model | xz -9e >fuzz/corpus.tar.xz
  say "fuzz/corpus.tar.xz: $(stat -c %s fuzz/corpus.tar.xz) bytes"
  exit
fi

# One folder of small files, named by their contents.
suites=()
for suite in malformed node traps ops_variants ops_contrib zoo_vision; do
  [ -d "$cases/$suite" ] || { say "no $cases/$suite: no seeds from it"; continue; }
  suites+=("$cases/$suite")
  [[ $suite == ops_* || $suite == zoo_* ]] && continue
  find "$cases/$suite" \( -name '*.onnx' -o -name '*.pb' \) -type f -size -16k -print0 | xargs -0 -r sha1sum |
    while read -r sum file; do [ -e "$tree/seeds/reader/$sum" ] || cp "$file" "$tree/seeds/reader/$sum"; done
done
if [ ${#suites[@]} -gt 0 ]; then
  use_python
  "$python" fuzz/make_seeds.py "$tree/seeds/model" "${suites[@]}"
fi

if [ "$executions" = --variants ]; then
  [ ${#suites[@]} -gt 0 ] || die "the variants need the cases"
  rm -rf "$tree/variants"
  "$python" fuzz/make_variants.py "$tree/seeds/model" "$tree/variants" --seeds "${2:-2}"
  say "$(find "$tree/variants" -type f | wc -l) variants"
  # Short names, few at a time: the sanitizers' reports need room beside the command line.
  cd "$tree/variants"
  find . -type f -printf '%f\n' | sort | xargs -n 400 sh -c '
    "$0" "$@" >../variants.log 2>&1 || { tail -n 60 ../variants.log >&2; exit 255; }' "$tree/bin/model_fuzz" \
    $(limits model) -rss_limit_mb=4096 -malloc_limit_mb=512 -artifact_prefix="$tree/crashes/"
  exit
fi

for target in "${targets[@]}"; do
  say "fuzzing, $executions executions ($target)"
  "$tree/bin/${target}_fuzz" -runs="$executions" $(limits "$target") -rss_limit_mb=4096 -malloc_limit_mb=512 -len_control=0 \
    -print_final_stats=1 -verbosity=1 -artifact_prefix="$tree/crashes/" "$tree/corpus/$target" "$tree/kept/$target" \
    "$tree/seeds/$target" 2>&1 | { grep -vE '(NEW|REDUCE|pulse|RELOAD)' || true; }
done
