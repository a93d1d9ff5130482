"""Case folders in ONNX's layout: model.onnx, test_data_set_N/{input,output}_J.pb, perhaps meta.json."""
import json
import pathlib

import onnx
from onnx import numpy_helper


def read_value(path, kind="tensor"):
    """(name, value) of a .pb file: an array, a list for a sequence, None or the content for an optional."""
    data = pathlib.Path(path).read_bytes()
    if kind == "sequence":
        proto = onnx.SequenceProto.FromString(data)
        return proto.name, numpy_helper.to_list(proto)
    if kind == "optional":
        proto = onnx.OptionalProto.FromString(data)
        return proto.name, numpy_helper.to_optional(proto)
    proto = onnx.TensorProto.FromString(data)
    array = numpy_helper.to_array(proto)
    return proto.name, array


def write_value(path, name, value):
    """The counterpart for arrays and lists of arrays."""
    if isinstance(value, list):
        proto = numpy_helper.from_list(value, name)
    else:
        proto = numpy_helper.from_array(value, name)
    pathlib.Path(path).write_bytes(proto.SerializeToString())


def kind_of(info):
    """tensor, sequence, optional or map: what a graph's input or output is declared as."""
    return (info.type.WhichOneof("value") or "tensor_type").removesuffix("_type").removesuffix("_tensor")


class Case:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        meta = self.folder / "meta.json"
        self.meta = json.loads(meta.read_text()) if meta.exists() else {}
        self.path = self.folder / self.meta.get("model", "model.onnx")

    @property
    def name(self):
        return f"{self.folder.parent.name}/{self.folder.name}"

    def data_sets(self):
        folders = self.folder.glob("test_data_set_*")
        return sorted(folders, key=lambda f: int(f.name.rsplit("_", 1)[1]))

    def read(self, model, data_set, what="input"):
        """The values of a data set by name, matched by the names in the files, else by position."""
        declared = list(model.graph.input if what == "input" else model.graph.output)
        kinds = {info.name: kind_of(info) for info in declared}
        values = {}
        files = sorted(data_set.glob(f"{what}_*.pb"), key=lambda f: int(f.stem.rsplit("_", 1)[1]))
        for position, path in enumerate(files):
            kind = kind_of(declared[position]) if position < len(declared) else "tensor"
            try:
                name, value = read_value(path, kind)
            except Exception:  # the file belongs to another input, which has another kind
                name, value = read_value(path)
            if name not in kinds and position < len(declared):
                name = declared[position].name
            elif kinds.get(name, kind) != kind:
                name, value = read_value(path, kinds[name])
            values[name] = value
        return values

    def tolerance(self, data_set_index=0, output=None):
        """(rtol, atol, int_atol) of an output, as `transmuter test` reads them."""
        found = {"rtol": 1e-3, "atol": 1e-7, "int_atol": 0}

        def take(entry):
            found.update({key: entry[key] for key in found if isinstance(entry.get(key), (int, float))})

        take(self.meta)
        sets = self.meta.get("data_sets", [])
        if data_set_index < len(sets) and isinstance(sets[data_set_index], list):
            for entry in sets[data_set_index]:
                if entry.get("name") == output:
                    take(entry)
        return found["rtol"], found["atol"], found["int_atol"]


def find_cases(folders):
    """Every case in the folders, which are cases, suites, or hold suites."""
    for folder in map(pathlib.Path, folders):
        if (folder / "model.onnx").exists() or (folder / "meta.json").exists():
            yield Case(folder)
            continue
        for depth in ("*", "*/*"):
            for inner in sorted(folder.glob(depth)):
                if (inner / "model.onnx").exists() or (inner / "test_data_set_0").is_dir():
                    yield Case(inner)
