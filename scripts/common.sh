# Sourced by the scripts beside it: where things are, and the few steps that they share.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
cd "$root"

say() { printf '== %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# CMake finds rustup's cargo by itself; shells often don't.
case ":$PATH:" in *":$HOME/.cargo/bin:"*) ;; *) PATH=$PATH:$HOME/.cargo/bin ;; esac

# configure_and_build PRESET [TARGET …]
configure_and_build() {
  local preset=$1
  shift
  local log=$build/$preset-configure.log
  mkdir -p "$build"
  cmake --preset "$preset" >"$log" 2>&1 || {
    cat "$log" >&2
    die "configuring $preset failed"
  }
  cmake --build "$build/$preset" -j"${JOBS:-$(nproc)}" ${1:+--target "$@"}
}

# The Python environment of the tests, made at its first use; sets $python.
use_python() {
  local venv=$build/venv want
  want=$(sha256sum scripts/requirements.txt | cut -d' ' -f1)
  if [ "$(cat "$venv/.requirements" 2>/dev/null || true)" != "$want" ]; then
    say "making the Python environment build/venv"
    mkdir -p "$build"
    # The system's own Python: a pyenv or conda one may lack venv or go away.
    local base=/usr/bin/python3
    [ -x "$base" ] || base=python3
    "$base" -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r scripts/requirements.txt
    printf '%s\n' "$want" >"$venv/.requirements"
  fi
  python=$venv/bin/python
}

# The test sounds of Debian's alsa-utils, unpacked, not installed; sets $sounds. False where they can't be had.
fetch_sounds() {
  local to=$build/sounds
  sounds=$to/usr/share/sounds/alsa
  [ -f "$sounds/Front_Center.wav" ] && return
  command -v apt-get >/dev/null || return
  mkdir -p "$to"
  (cd "$to" && apt-get download -qq alsa-utils && dpkg -x alsa-utils_*.deb .) >/dev/null 2>&1
}

# Results of test steps, one `passed failed skipped name` a line; a script that calls another hands it the file.
begin_tally() {
  mkdir -p "$build"
  if [ -z "${TRANSMUTER_TALLY:-}" ]; then
    export TRANSMUTER_TALLY=$build/tally-$$.txt
    : >"$TRANSMUTER_TALLY"
    own_tally=1
  fi
}

tally() {
  printf '%s %s %s %s\n' "$2" "$3" "$4" "$1" >>"$TRANSMUTER_TALLY"
  printf '   %s: %s passed, %s failed, %s skipped\n' "$1" "$2" "$3" "$4"
}

# Prints the closing line and fails if anything did; only in the script that began the tally.
end_tally() {
  [ "${own_tally:-0}" = 1 ] || return 0
  local passed=0 failed=0 skipped=0 p f s name
  while read -r p f s name; do
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    [ "$f" = 0 ] || printf 'FAILED: %s (%s)\n' "$name" "$f"
  done <"$TRANSMUTER_TALLY"
  rm -f "$TRANSMUTER_TALLY"
  if [ "$skipped" -gt 0 ]; then
    printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  else
    printf '%d passed, %d failed\n' "$passed" "$failed"
  fi
  [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}

# read_counts LOG STATUS : sets passed, failed and skipped to what the log closes with. A crash has no closing line; a bad
# exit status is never a pass.
read_counts() {
  local line
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$' "$1" | tail -n 1 || true)
  read -r passed failed skipped <<<"$(sed 's/[^0-9]\+/ /g' <<<"${line:-0 passed, 1 failed}")"
  if [ "$2" != 0 ] && [ "$failed" = 0 ]; then failed=1; fi
}

# check NAME COMMAND… : one pass-or-fail step; its output is shown when it fails.
check() {
  local name=$1 log=$build/check.log
  shift
  if "$@" >"$log" 2>&1; then
    tally "$name" 1 0 0
  else
    cat "$log"
    tally "$name" 0 1 0
  fi
}

# gtest NAME BINARY [ARGUMENT …] : runs a googletest program and counts its tests.
gtest() {
  local name=$1 log=$build/gtest.log status=0 ran passed
  shift
  "$@" --gtest_brief=1 >"$log" 2>&1 || status=$?
  ran=$(sed -n 's/^\[==========\] \([0-9]*\) tests\? from .* ran\..*/\1/p' "$log" | tail -n 1)
  passed=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) tests\?\..*/\1/p' "$log" | tail -n 1)
  local skipped
  skipped=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) tests\?.*/\1/p' "$log" | tail -n 1)
  ran=${ran:-0} passed=${passed:-0} skipped=${skipped:-0}
  local failed=$((ran - passed - skipped))
  # A crash (or a sanitizer's report) ends the program before its closing lines.
  if [ "$status" != 0 ] && [ "$failed" -le 0 ]; then failed=1; fi
  if [ "$failed" != 0 ] || [ "$status" != 0 ]; then tail -n 200 "$log"; fi
  tally "$name" "$passed" "$failed" "$skipped"
}
