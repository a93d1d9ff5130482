#!/usr/bin/env bash
# Formats the C++ and Rust sources in place; with --check only tells whether they are formatted.
# The rules are clang-format 14's (Debian 12): other versions break lines differently.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
mode=(-i)
rust=()
if [ "${1:-}" = --check ]; then
  mode=(--dry-run --Werror)
  rust=(--check)
fi
git ls-files -z '*.cc' '*.h' | xargs -0 clang-format "${mode[@]}"
if cargo fmt --version >/dev/null 2>&1; then (cd rust/text && cargo fmt -- "${rust[@]}"); fi
