#!/usr/bin/env python3
"""Makes the model cases that a clone carries with it: small models of many architectures in the precisions that exports have.

    make_zoo.py [NAME ...] [--folder DEST]     writes tests/data/zoo.tar.xz, or with --folder the case folders alone

The builders are in zoo/, a module a kind, the precisions in zoo/variants.py.  Each data set goes through one model, so the
second proves that shapes stay symbolic.  References are ONNX Runtime's, without optimizations, on a processor whose sums of
bytes are exact.  Seeds are fixed; the archive's bytes depend on the builders and the pinned packages alone.
"""
import argparse
import io
import json
import lzma
import pathlib
import sys
import tarfile
import tempfile
import zlib

import numpy as np
import onnx
from onnx import numpy_helper

import zoo
from lib.cases import write_value
from lib.precision import precision
from lib.record import Inexact, check_exact, record
from zoo.refused import REFUSED
from zoo.variants import VARIANTS

ARCHIVE = pathlib.Path(__file__).resolve().parents[2] / "tests/data/zoo.tar.xz"


def coarsen(model):
    """Large weights keep six bits behind the point, so that an archive of random numbers is a third as large."""
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and np.prod(tensor.dims) >= 256:
            bits = numpy_helper.to_array(tensor).view(np.uint32)
            rounded = ((bits + np.uint32(1 << 16)) & np.uint32(0xFFFE0000)).view(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(rounded, tensor.name))
    return model


def build(name, entry):
    made = entry["build"](name)
    if isinstance(made, onnx.ModelProto):
        return made
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        made.save(str(path))
        return coarsen(onnx.load(str(path)))


def cases(names):
    """(case, model, data sets, entry, tolerance) of each variant."""
    for name, entry in zoo.ARCHITECTURES.items():
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        sets = [make(rng) for make in entry["data_sets"]]
        wanted = [v for v in ("", *entry["variants"])
                  if not names or any(f"{name}_{v}".rstrip("_").startswith(n) for n in names)]
        model = build(name, entry) if wanted else None
        for variant in wanted:
            if not variant:
                yield name, model, sets, entry, entry.get("tolerance", (1e-3, 1e-4))
                continue
            make, tolerance = VARIANTS[variant]
            given = {i.name for i in model.graph.input}
            yield f"{name}_{variant}", make(model, [{k: v for k, v in s.items() if k in given} for s in sets]), sets, entry, tolerance


def refused(folder):
    """The models that must fail: how many."""
    for name, (model, feeds, mention) in REFUSED.items():
        case = folder / f"refused_{name}"
        data = case / "test_data_set_0"
        data.mkdir(parents=True)
        onnx.save(model, str(case / "model.onnx"))
        for i, (key, value) in enumerate(feeds.items()):
            write_value(data / f"input_{i}.pb", key, value)
        meta = {"expect": "error", "stage": "run", "must_mention": mention, "reference": "specification",
                "architecture": "bad mixes", "exporter": "by hand"}
        (case / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")
    return len(REFUSED)


def pack(folder, archive):
    """The folder as .tar.xz whose bytes depend on the contents alone."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            member = tarfile.TarInfo(f"zoo/{path.relative_to(folder)}")
            if path.is_dir():
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(member)
                continue
            content = path.read_bytes()
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    archive.write_bytes(lzma.compress(data.getvalue(), preset=9))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only cases whose name starts so (with --folder)")
    parser.add_argument("--folder", type=pathlib.Path)
    options = parser.parse_args()
    if options.names and not options.folder:
        parser.error("the archive holds every case; give --folder for some")
    try:
        check_exact()
    except Inexact as error:
        sys.exit(str(error))
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or pathlib.Path(scratch)
        count = 0
        for name, model, sets, entry, tolerance in cases(options.names):
            print(name, end=": ", flush=True)
            meta = record(folder / name, model, sets, tolerance, architecture=name if name in zoo.ARCHITECTURES else
                          next(a for a in sorted(zoo.ARCHITECTURES, key=len, reverse=True) if name.startswith(a)),
                          exporter="bench/coverage/zoo", precision_label=precision(model), what=entry.get("what", ""))
            count += 1
            print(f"{meta['precision_label']}, {len(model.graph.node)} nodes, atol {meta['atol']}", flush=True)
        if not options.names:
            count += refused(folder)
        if not options.folder:
            pack(folder, ARCHIVE)
            print(f"{count} cases, {ARCHIVE.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
