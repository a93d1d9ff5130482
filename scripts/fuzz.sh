#!/usr/bin/env bash
# Fuzzes the file readers under the address and undefined-behaviour sanitizers; fails on the first crash, hang or runaway
# allocation, and leaves the input in build/fuzz/crashes.
#   fuzz.sh [EXECUTIONS]     200000 when not given
# Seeds are the models and values of the malformed, node and trap cases in $TRANSMUTER_CASES (folders, unpacked) or
# build/cases, and what earlier runs found in build/fuzz/corpus.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
executions=${1:-200000}
command -v clang++ >/dev/null || die "clang++ is needed (apt-get install clang)"

cases=${TRANSMUTER_CASES:-$build/cases}
[ -d "$cases/node" ] || cases=$build/cases
tree=$build/fuzz
mkdir -p "$tree/corpus" "$tree/crashes" "$tree/seeds"

say "building (fuzz)"
cmake -S . -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
  -DTRANSMUTER_FUZZ=ON -DTRANSMUTER_TEXT=OFF -DTRANSMUTER_CLI=OFF -DTRANSMUTER_TESTS=OFF >"$tree/configure.log" 2>&1 || {
  cat "$tree/configure.log" >&2
  die "configuring failed"
}
cmake --build "$tree" --target reader_fuzz -j"${JOBS:-$(nproc)}"

# One folder of small files, named by their contents.
for suite in malformed node traps; do
  [ -d "$cases/$suite" ] || { say "no $cases/$suite: no seeds from it"; continue; }
  find "$cases/$suite" \( -name '*.onnx' -o -name '*.pb' \) -type f -size -16k -print0 | xargs -0 -r sha1sum |
    while read -r sum file; do [ -e "$tree/seeds/$sum" ] || cp "$file" "$tree/seeds/$sum"; done
done

say "fuzzing, $executions executions"
"$tree/bin/reader_fuzz" -runs="$executions" -max_len=16384 -timeout=20 -rss_limit_mb=2048 -malloc_limit_mb=512 \
  -print_final_stats=1 -verbosity=1 -artifact_prefix="$tree/crashes/" "$tree/corpus" "$tree/seeds" 2>&1 |
  { grep -vE '(NEW|REDUCE|pulse|RELOAD)' || true; }
