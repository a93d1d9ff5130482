#!/usr/bin/env bash
# Installs what building Transmuter needs; where nothing is missing it does nothing, quickly and without the network.
#   bootstrap.sh           the tools and libraries (Debian 12 and its kin, as root or with sudo; elsewhere it prints them)
#   bootstrap.sh --tests   also the Python environment of the tests, in build/venv
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

with_tests=0
for argument; do
  case $argument in
    --tests) with_tests=1 ;;
    *) die "usage: bootstrap.sh [--tests]" ;;
  esac
done

needed=(
  git ca-certificates cmake ninja-build g++ ccache mold
  libprotozero-dev libkissfft-dev libhwy-dev libcurl4-openssl-dev nlohmann-json3-dev libcli11-dev libeigen3-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  python3 python3-venv xz-utils
)
# A build does without them: formats of pictures, sound files and rates, regular expressions; then what scripts/format.sh,
# clang-tidy and the fuzzers need.
optional=(libjpeg-dev libpng-dev libtiff-dev libwebp-dev libopenjp2-7-dev libsndfile1-dev libsoxr-dev libre2-dev
  clang clang-format clang-tidy libclang-rt-14-dev)
rust_minimum=1.85

installed() { dpkg-query -W -f='${Status}\n' "$1" 2>/dev/null | grep -q '^install ok installed$'; }

at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

rust_is_recent() {
  local version
  command -v cargo >/dev/null && version=$(rustc --version 2>/dev/null | cut -d' ' -f2) && at_least "$rust_minimum" "$version"
}

if [ "$(id -u)" = 0 ]; then
  as_root=()
elif command -v sudo >/dev/null; then
  as_root=(sudo)
else
  as_root=(false)
fi

rust_advice="Rust $rust_minimum or later is needed for the tokenizers: on Debian 12 the packages cargo-web and rustc-web have it, \
elsewhere https://rustup.rs; or configure with -DTRANSMUTER_TEXT=OFF."

if ! command -v apt-get >/dev/null; then
  missing=()
  for tool in cmake ninja g++ python3 xz; do command -v "$tool" >/dev/null || missing+=("$tool"); done
  rust_is_recent || say "$rust_advice"
  say "no apt-get here. Install by hand what is missing of these (Debian's names): ${needed[*]}"
  [ ${#missing[@]} = 0 ] || die "missing: ${missing[*]}"
else
  missing=()
  for package in "${needed[@]}"; do installed "$package" || missing+=("$package"); done
  # A compiler or CMake that came another way will do.
  for pair in cmake:cmake ninja-build:ninja g++:g++ python3:python3 ccache:ccache mold:mold git:git; do
    if command -v "${pair#*:}" >/dev/null; then
      for i in "${!missing[@]}"; do [ "${missing[$i]}" != "${pair%%:*}" ] || unset "missing[$i]"; done
    fi
  done
  extra=()
  for package in "${optional[@]}"; do installed "$package" || extra+=("$package"); done
  want_rust=0
  rust_is_recent || want_rust=1

  if [ ${#missing[@]} -gt 0 ] || [ $want_rust = 1 ] || { [ ${#extra[@]} -gt 0 ] && [ "${as_root[*]:-}" != false ]; }; then
    [ "${as_root[*]:-}" != false ] || die "run as root, or install: ${missing[*]:-} ${extra[*]:-}. $rust_advice"
    export DEBIAN_FRONTEND=noninteractive
    say "updating the package lists"
    "${as_root[@]}" apt-get update -qq
    for package in "${extra[@]}"; do
      apt-cache show "$package" >/dev/null 2>&1 && missing+=("$package") || say "no package $package here; going on without"
    done
    if [ ${#missing[@]} -gt 0 ]; then
      say "installing ${missing[*]}"
      "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    fi
    if [ $want_rust = 1 ]; then
      candidate=$(apt-cache policy cargo-web 2>/dev/null | sed -n 's/^  Candidate: \([0-9.]*\).*/\1/p')
      plain=$(apt-cache policy rustc 2>/dev/null | sed -n 's/^  Candidate: \([0-9.]*\).*/\1/p')
      if [ -n "$candidate" ] && at_least "$rust_minimum" "$candidate" && ! command -v rustup >/dev/null; then
        say "installing cargo-web $candidate"
        "${as_root[@]}" apt-get install -y -qq --no-install-recommends cargo-web rustc-web >/dev/null
      elif [ -n "$plain" ] && at_least "$rust_minimum" "$plain" && ! command -v rustup >/dev/null; then
        say "installing cargo ($plain)"
        "${as_root[@]}" apt-get install -y -qq --no-install-recommends cargo rustc >/dev/null
      else
        die "$rust_advice"
      fi
    fi
  fi
fi

cmake_version=$(cmake --version | sed -n '1s/[^0-9]*//p')
at_least 3.25 "$cmake_version" || die "CMake 3.25 or later is needed, found $cmake_version"
if [ $with_tests = 1 ]; then use_python; fi
