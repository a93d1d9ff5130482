#!/usr/bin/env python3
"""Lists ONNX models to cover, a JSON object a line: name, source, where it is, what is known of it.

    list_models.py --cases FOLDER ...     case folders (build/cases/zoo and the like)
    list_models.py --packaged             trained models that packages ship (tests/real_models.json)
    list_models.py --hub [--limit N]      repositories of the hub with ONNX files, the most used first; a variant a line

Without options: the packaged ones, and the hub's where it can be reached.  A hub that cannot be reached is said on standard
error and is no failure.  HF_ENDPOINT names another hub, HF_TOKEN a token.
"""
import argparse
import json
import os
import pathlib
import sys
import urllib.error
import urllib.parse
import urllib.request

import onnx

from lib.cases import find_cases
from lib.precision import precision

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What the files of a repository are called by the converters, by suffix of the name.
SUFFIXES = {"_fp16": "f16", "_bf16": "bf16", "_quantized": "int8 dynamic", "_int8": "int8 dynamic", "_uint8": "int8 dynamic",
            "_q4": "q4", "_q4f16": "q4f16", "_bnb4": "bnb4", "_q8": "q8"}


def from_cases(folders):
    for case in find_cases(folders):
        if not case.path.exists():
            continue
        model = onnx.load(str(case.path), load_external_data=False)
        operators = sorted({f"{n.domain}.{n.op_type}".lstrip(".") for n in model.graph.node})
        yield {"name": case.name, "source": "cases", "at": str(case.path), "bytes": case.path.stat().st_size,
               "architecture": case.meta.get("architecture", case.folder.name), "exporter": case.meta.get("exporter", ""),
               "precision": precision(model), "operators": operators}


def packaged():
    for model in json.loads((ROOT / "tests/real_models.json").read_text())["models"]:
        package = model["parts"][0][0]
        yield {"name": model["dest"], "source": "package", "at": f"scripts/fetch_models.py --only {model['dest']}",
               "bytes": model["bytes"], "architecture": pathlib.Path(model["dest"]).stem, "exporter": f"package {package}",
               "precision": "", "licence": model["licence"]}


def variant(path):
    stem = pathlib.PurePosixPath(path).stem
    return next((name for suffix, name in sorted(SUFFIXES.items(), key=lambda s: -len(s[0])) if stem.endswith(suffix)), "f32")


def ask(url):
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    if os.environ.get("HF_TOKEN"):
        request.add_header("Authorization", f"Bearer {os.environ['HF_TOKEN']}")
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def from_hub(limit):
    base = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    query = urllib.parse.urlencode({"filter": "onnx", "sort": "downloads", "direction": -1, "limit": limit, "full": "true"})
    for entry in ask(f"{base}/api/models?{query}"):
        repository = entry["id"]
        architecture = (entry.get("config") or {}).get("model_type") or entry.get("pipeline_tag") or ""
        for sibling in entry.get("siblings", []):
            path = sibling["rfilename"]
            if path.endswith(".onnx"):
                yield {"name": f"{repository}/{path}", "source": "hub", "at": f"hf:{repository}/{path}",
                       "bytes": sibling.get("size"), "architecture": architecture, "exporter": entry.get("library_name", ""),
                       "precision": variant(path), "downloads": entry.get("downloads", 0)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", type=pathlib.Path, default=[])
    parser.add_argument("--packaged", action="store_true")
    parser.add_argument("--hub", action="store_true")
    parser.add_argument("--limit", type=int, default=100, help="repositories of the hub")
    options = parser.parse_args()
    everything = not (options.cases or options.packaged or options.hub)
    for model in from_cases(options.cases):
        print(json.dumps(model))
    if options.packaged or everything:
        for model in packaged():
            print(json.dumps(model))
    if options.hub or everything:
        try:
            for model in from_hub(options.limit):
                print(json.dumps(model))
        except (urllib.error.URLError, OSError, ValueError) as error:
            print(f"the hub cannot be reached ({error}): its repositories are left out", file=sys.stderr)


if __name__ == "__main__":
    main()
