#!/usr/bin/env bash
# Runs the programs of examples/ on real files and compares with what these files are.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
use_python
models=$build/models
"$python" scripts/fetch_models.py "$models" --only magika --only silero_vad_op18_ifless --cache "$build/packages"

# expect TEXT PATTERN …
expect() {
  local text=$1
  shift
  printf '%s\n' "$text"
  for pattern; do grep -qE "$pattern" <<<"$text" || die "no line is like: $pattern"; done
}

magika=$models/magika/standard_v3_3_model.onnx
expect "$("$build/release/examples/file_type" "$magika" "$models/magika/config.json" \
  README.md src/text/tokenizer.cc rust/text/src/lib.rs scripts/demo.sh scripts/fetching.py "$magika")" \
  '^README.md +markdown' 'tokenizer.cc +cpp' 'lib.rs +rust' 'demo.sh +shell' 'fetching.py +python' 'model.onnx +onnx'

expect "$("$build/release/examples/watch" "$magika" bytes=2x2048)" \
  '^a trace was made in .* for bytes ' '^segment 0 ran for .* on bytes ' '^transmuter_runs_total 2$' \
  '^transmuter_plan_hits_total 1$'

silero=$models/silero-vad/silero_vad_op18_ifless.onnx
silence=$build/silence.wav
"$python" -c '
import sys, wave
with wave.open(sys.argv[1], "wb") as file:
    file.setparams((1, 2, 16000, 0, "NONE", "")), file.writeframes(bytes(32000))' "$silence"
expect "$("$build/release/examples/find_speech" "$silero" "$silence")" '^silence.wav: no speech$'
if fetch_sounds; then
  expect "$("$build/release/examples/find_speech" "$silero" "$sounds"/{Front_Center,Rear_Left,Noise}.wav)" \
    '^Front_Center.wav: speech from 0\.' '^Rear_Left.wav: speech from 0\.' '^Noise.wav: no speech$'
fi
