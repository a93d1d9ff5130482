#!/usr/bin/env bash
# Installs the release build under build/install, then configures, builds and runs this folder's project against it.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
rm -rf "$build/install" "$build/install-test"
cmake --install "$build/release" --prefix "$build/install"
cmake -S tests/install -B "$build/install-test" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$build/install"
cmake --build "$build/install-test"
"$build/install-test/uses_transmuter"
