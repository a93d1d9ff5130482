#!/usr/bin/env python3
"""Spoils the node cases in every way that an operator's inputs and attributes can be wrong, and runs them.

    check_bad_input.py PROGRAM CASES FOLDER [--backend NAME] [--operator NAME] [--against-onnxruntime]

PROGRAM is `transmuter`, CASES the folder of ONNX's node cases, FOLDER a place for the spoiled ones. For each operator the
first cases of one node are templates: each integer attribute far out of range, each list of integers too short, too long and
with absurd members, an attribute of another type, one that the schema does not have, an input of another rank, empty, of a
dtype that the schema does not allow, left out, one too many, and integer inputs with values far out of range. The answer
must be one Error that names the node, or (many a spoiled node is still right) a result; never a crash, an error of
ours ("internal"), or a minute of work. --against-onnxruntime also lists what ONNX Runtime refuses and we take, for a reader.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from check_types import element_types, templates  # noqa: E402

TEMPLATES = 1
FAR = [-(2**62), -7, -1, 0, 7, 2**31, 2**62]
MEMORY = 12_000_000  # KiB
TOO_LARGE = ("there is not enough memory for this run", "are more than can be addressed", "no memory for")
RAN = "must fail with a clear error, but ran"  # as many a spoiled node rightly does


def variants(schema, model, inputs):
    """(what is spoiled, node, inputs): the values by name."""
    node = model.graph.node[0]
    by_name = dict(zip([i.name for i in model.graph.input], inputs))

    def changed(edit):
        made = onnx.NodeProto()
        made.CopyFrom(node)
        edit(made)
        return made

    given = {a.name: a for a in node.attribute}

    def with_attribute(name, value):
        def edit(made):
            kept = [a for a in made.attribute if a.name != name]
            del made.attribute[:]
            made.attribute.extend([*kept, helper.make_attribute(name, value)])
        return changed(edit)

    for name, attribute in schema.attributes.items():
        kind = attribute.type.name
        if kind == "INT":
            for value in FAR:
                yield f"{name}={value}", with_attribute(name, value), by_name
            yield f"{name}-as-text", with_attribute(name, "x"), by_name
        elif kind == "INTS":
            now = list(given[name].ints) if name in given else [1, 1]
            lists = [now[:-1] or [5], now + now[-1:], *[[v, *now[1:]] for v in FAR]]
            for i, value in enumerate(lists):
                yield f"{name}-list{i}", with_attribute(name, value), by_name
            yield f"{name}-as-number", with_attribute(name, 1.5), by_name
        elif kind == "FLOAT":
            for value in (float("nan"), float("inf"), -1e30, 0.0):
                yield f"{name}={value}", with_attribute(name, value), by_name
            yield f"{name}-as-list", with_attribute(name, [1, 2]), by_name
        elif kind == "STRING":
            yield f"{name}-unknown", with_attribute(name, "no_such_word"), by_name
            yield f"{name}-as-number", with_attribute(name, 3), by_name
        elif kind == "FLOATS":
            now = list(given[name].floats) if name in given else [1.0]
            yield f"{name}-long", with_attribute(name, now + now[-1:]), by_name
            yield f"{name}-nan", with_attribute(name, [float("nan"), *now[1:]]), by_name
    yield "no-such-attribute", with_attribute("no_such_attribute", 1), by_name
    for name in given:
        def drop(made, name=name):
            kept = [a for a in made.attribute if a.name != name]
            del made.attribute[:]
            made.attribute.extend(kept)
        yield f"without-{name}", changed(drop), by_name
    for i, name in enumerate(node.input):
        if not name:
            continue
        value = by_name[name]
        formal = schema.inputs[min(i, len(schema.inputs) - 1)]

        def put(spoiled, name=name):
            return {**by_name, name: spoiled}

        yield f"input{i}-deeper", node, put(value.reshape(1, *value.shape))
        yield f"input{i}-scalar", node, put(value.reshape(-1)[:1].reshape(()) if value.size else value.reshape(0, 1))
        yield f"input{i}-flat", node, put(value.reshape(-1))
        yield f"input{i}-empty", node, put(value[:0] if value.ndim else value.reshape(1)[:0])
        if value.ndim and value.shape[0]:
            yield f"input{i}-longer", node, put(np.concatenate([value, value[-1:]]))
            yield f"input{i}-shorter", node, put(value[:-1])
            yield f"input{i}-last-longer", node, put(np.concatenate([value, value[..., -1:]], -1))
        allowed = element_types(schema, formal.type_str)
        for number, other in ((onnx.TensorProto.STRING, np.array(["a"] * value.size, object)),
                              (onnx.TensorProto.BOOL, np.ones(value.size, bool)),
                              (onnx.TensorProto.INT16, np.ones(value.size, np.int16)),
                              (onnx.TensorProto.COMPLEX64, np.ones(value.size, np.complex64))):
            if number not in allowed:
                yield f"input{i}-{onnx.TensorProto.DataType.Name(number).lower()}", node, put(other.reshape(value.shape))
        if value.dtype in (np.int64, np.int32, np.uint8, np.int8):
            info = np.iinfo(value.dtype)
            for v in (info.min, info.min + 1, -1000 if info.min < -1000 else info.min, max(info.min, -1), 0, min(1000, info.max),
                      info.max):
                filled = np.full_like(value, v)
                yield f"input{i}-all{v}", node, put(filled)
                if value.size > 1:
                    one = value.copy()
                    one.reshape(-1)[-1] = v
                    yield f"input{i}-one{v}", node, put(one)

        def leave_out(made, i=i):
            made.input[i] = ""
        yield f"input{i}-absent", changed(leave_out), by_name
    yield "inputs-one-less", changed(lambda made: made.input.pop()), by_name
    yield "inputs-one-more", changed(lambda made: made.input.extend(["x"] * 9)), {**by_name, "x": np.ones(2, np.float32)}
    yield "outputs-one-more", changed(lambda made: made.output.extend(["more_1", "more_2", "more_3", "more_4"])), by_name


def write(folder, model, node, values):
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.node[:], made.graph.input[:], made.graph.output[:]
    named = onnx.NodeProto()
    named.CopyFrom(node)
    named.name = "spoiled_node"
    made.graph.node.extend([named])
    names = [n for n in dict.fromkeys(node.input) if n]
    protos = [numpy_helper.from_array(values[n], n) for n in names]
    made.graph.input.extend(helper.make_tensor_value_info(p.name, p.data_type, list(p.dims)) for p in protos)
    made.graph.output.extend(helper.make_empty_tensor_value_info(o) for o in node.output if o)
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    for i, p in enumerate(protos):
        (data / f"input_{i}.pb").write_bytes(p.SerializeToString())
    (folder / "meta.json").write_text(json.dumps({"expect": "error", "must_mention": ["spoiled_node"],
                                                  "time_limit_s": 20}))


def build(cases, folder, only):
    count = 0
    for operator, rows in templates(cases).items():
        if only and operator != only:
            continue
        seen = set()
        for name, model, inputs in rows[:TEMPLATES]:
            schema = defs.get_schema(operator, model.opset_import[0].version, "")
            for what, node, values in variants(schema, model, inputs):
                case = f"{operator}-{what}".replace("/", "_")
                case += f"-{len([s for s in seen if s == case])}" if case in seen else ""
                seen.add(case)
                try:
                    write(folder / operator / case, model, node, values)
                    count += 1
                except Exception:  # noqa: BLE001: what no file can hold
                    shutil.rmtree(folder / operator / case, ignore_errors=True)
    return count


def run(program, folder, backend):
    """Lines about what failed, and the rows of the report. A case that kills the program or hangs is left out and the rest
    run again."""
    report, lines = folder / "report.json", []
    command = (f"ulimit -v {MEMORY}; exec '{program}' test '{folder}' --backend {backend} --jobs 1 --threads 1 -v "
               f"--report '{report}'")
    while any(folder.iterdir()):
        try:
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, errors="replace", check=False,
                                  timeout=60)
            how = f"the program ended with {done.returncode}"
            said = done.stderr
        except subprocess.TimeoutExpired as late:
            how, said = "the program hangs", (late.stderr or b"").decode(errors="replace")
        if report.exists():
            return lines, json.loads(report.read_text())
        at = re.findall(r"^run \S+/(\S+)$", said, re.M)[-1]
        lines.append(f"FAIL {folder.name}/{at}: {how}")
        shutil.rmtree(folder / at)
    return lines, []


def runs_in_onnxruntime(folder):
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
    feeds = {}
    for path in (folder / "test_data_set_0").glob("input_*.pb"):
        tensor = onnx.TensorProto()
        tensor.ParseFromString(path.read_bytes())
        feeds[tensor.name] = numpy_helper.to_array(tensor)
    try:
        session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
        session.run(None, feeds)
        return ""
    except Exception as error:  # noqa: BLE001
        return str(error).replace("\n", " ")[:200]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--operator")
    parser.add_argument("--against-onnxruntime", action="store_true")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.folder, ignore_errors=True)
    arguments.folder.mkdir(parents=True)
    total = build(arguments.cases, arguments.folder, arguments.operator)
    failed = []
    for folder in sorted(arguments.folder.iterdir()):
        lines, rows = run(arguments.program, folder, arguments.backend)
        for row in rows:
            if row["passed"]:
                continue
            case = row["case"].split("/")[-1]
            if any(words in row["reason"] for words in TOO_LARGE):
                continue
            if row["reason"] != RAN:
                lines.append(f"FAIL {case}: {row['reason'][:300]}")
            elif arguments.against_onnxruntime and (said := runs_in_onnxruntime(folder / case)):
                print(f"taken {case}: {said}", flush=True)
        print(*lines, sep="\n", end="\n" if lines else "", flush=True)
        failed += lines
    print(f"{total - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
