#!/usr/bin/env bash
# Runs clang-tidy with the checks of .clang-tidy over the library, the program and the examples; fails on any finding.
#   tidy.sh [--deep] [FILE …]   FILE: parts of paths (src/onnx, print.cc); --deep: the static analyzer too, which is slow
# The rules are clang-tidy 14's (Debian 12).
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

deep=()
parts=()
for argument; do
  case $argument in
    --deep) deep=(--checks=clang-analyzer-*) ;;
    -*) die "usage: tidy.sh [--deep] [FILE …]" ;;
    *) parts+=(-e "$argument") ;;
  esac
done

command -v clang-tidy >/dev/null || die "clang-tidy is not installed; scripts/bootstrap.sh installs it where it can"
commands=$build/release/compile_commands.json
[ -f "$commands" ] || cmake --preset release >/dev/null
files=$(sed -n 's|^ *"file": "'"$root"'/\(.*\)",\{0,1\}$|\1|p' "$commands" | grep -E '^(src|cli|examples)/' | sort -u)
[ ${#parts[@]} = 0 ] || files=$(grep -F "${parts[@]}" <<<"$files") || die "no file of the build is called that"
# The largest first, so that no core is left with one at the end.
xargs -d '\n' ls -S <<<"$files" |
  xargs -d '\n' -P "${JOBS:-$(nproc)}" -n 1 clang-tidy -p "$build/release" --quiet "${deep[@]}" 2>/dev/null
