#!/usr/bin/env bash
# The backend pjrt on an accelerator, in under five minutes on a machine that has one: fetches the plugin, builds what is
# missing, runs the contract suite, traps and a sample of node cases, and times a model beside the cpu backend.
#   device_check.sh [PLUGIN.so]     without one: jax-cuda13-pjrt from PyPI, which brings CUDA's libraries beside it
# Prepare (build, packages) where the network is; the rest needs only the machine. Ends with `N passed, N failed`.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

start=$SECONDS
plugin=${1:-}
use_python
begin_tally
if [ -z "$plugin" ]; then
  "$python" -c "import jax_plugins.xla_cuda13" 2>/dev/null ||
    "$python" -m pip install --quiet --disable-pip-version-check "jax-cuda13-pjrt" "jax-cuda13-plugin[with-cuda]" ||
    die "jax-cuda13-pjrt cannot be installed; name a plugin"
  plugin=$("$python" - <<'PY'
import importlib.util, pathlib
spec = importlib.util.find_spec("jax_plugins.xla_cuda13")
print(next(iter(sorted(pathlib.Path(spec.submodule_search_locations[0]).glob("*.so"))), ""))
PY
  )
  # The plugin finds CUDA's libraries by name.
  libraries=$("$python" -c 'import glob, sysconfig
print(":".join(glob.glob(sysconfig.get_path("purelib") + "/nvidia/*/lib") + glob.glob(sysconfig.get_path("purelib") + "/nvidia/*/*/lib")))')
  export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
[ -f "$plugin" ] || die "there is no plugin $plugin"
[ -x "$build/release/bin/transmuter" ] && [ -x "$build/release/bin/unit_tests" ] || configure_and_build release
program=$build/release/bin/transmuter
cases=${TRANSMUTER_CASES:-$build/cases}
export TRANSMUTER_PJRT_PLUGIN=$plugin TF_CPP_MIN_LOG_LEVEL=2

say "contract"
gtest "contract" timeout 120 "$build/release/bin/unit_tests" --gtest_filter='*/pjrt:Pjrt*'

# sample SUITE EVERY : every so many cases of a suite
sample() {
  local suite=$1 every=$2 log=$build/test-logs/device-$1.txt status=0 passed failed skipped
  [ -d "$cases/$suite" ] || { say "no suite $suite in $cases"; return 0; }
  mkdir -p "$build/test-logs"
  find "$cases/$suite" -mindepth 1 -maxdepth 1 -type d | sort | awk -v n="$every" 'NR % n == 1 || n == 1' |
    TRANSMUTER_PJRT_CACHE=off timeout 150 xargs "$program" test --backend pjrt --jobs 8 --threads 1 --skip-unsupported \
      --exceptions tests/exceptions.txt >"$log" 2>&1 || status=$?
  read_counts "$log" "$status"
  grep FAIL "$log" | cut -c1-200 || true
  tally "$suite, every ${every}th" "$passed" "$failed" "${skipped:-0}"
}
say "cases"
sample traps 3
sample node 10

model=$build/models/all-MiniLM-L6-v2/model.onnx
if [ -f "$model" ]; then
  say "speed: all-MiniLM-L6-v2, 8 texts of 128 tokens"
  for backend in pjrt cpu; do
    printf '   %s: ' "$backend"
    timeout 60 "$program" bench "$model" --backend $backend --dim batch=8 --dim sequence=128 --dim batch_size=8 \
      --dim sequence_length=128 --seconds 3 |
      head -n 1
  done
fi
say "$((SECONDS - start)) seconds in all"
end_tally
