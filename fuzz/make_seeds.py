#!/usr/bin/env python3
"""Seeds of model_fuzz: the models of case folders, each with its inputs' values as the inputs' defaults.

    make_seeds.py DEST SUITE...

So an execution meets the shapes, indices and axes that an operator needs, while the tracer still takes them for inputs. Models above
LIMIT bytes are left out; files are named by their contents.
"""
import argparse
import hashlib
import pathlib

import onnx

LIMIT = 6000


def seed(folder):
    """The bytes of the case's model, None where it is too large or no model."""
    path = folder / "model.onnx"
    if not path.is_file() or path.stat().st_size > LIMIT:
        return None
    original = path.read_bytes()
    try:
        model = onnx.ModelProto.FromString(original)
    except Exception:  # a case that is no model: the readers' fuzzer has it, too
        return original
    held = {tensor.name for tensor in model.graph.initializer}
    tensors = {value.name: value.type.WhichOneof("value") == "tensor_type" for value in model.graph.input}
    for file in sorted((folder / "test_data_set_0").glob("input_*.pb")):
        if file.stat().st_size > LIMIT:
            continue
        try:
            tensor = onnx.TensorProto.FromString(file.read_bytes())
        except Exception:
            continue
        if tensors.get(tensor.name) and tensor.name not in held:
            model.graph.initializer.append(tensor)
    if model.graph.initializer and 0 < model.ir_version < 4:
        model.ir_version = 4
    data = model.SerializeToString()
    return data if len(data) <= LIMIT else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dest", type=pathlib.Path)
    parser.add_argument("suites", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()
    arguments.dest.mkdir(parents=True, exist_ok=True)
    for suite in arguments.suites:
        for folder in sorted(suite.iterdir()):
            data = seed(folder) if folder.is_dir() else None
            if data:
                (arguments.dest / hashlib.sha1(data).hexdigest()).write_bytes(data)


if __name__ == "__main__":
    main()
