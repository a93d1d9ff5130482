#!/usr/bin/env python3
"""Runs every operator with every dtype that its schema allows, and lists what is refused.

    check_types.py PROGRAM CASES FOLDER [--backend NAME] [--operator NAME]

PROGRAM is `transmuter`, CASES the folder of ONNX's node cases, FOLDER a place for the models. The templates are the node
cases of one node: for each operator the first ones, with the inputs of one type parameter turned into each dtype the schema
allows for it. Where onnx.reference computes the same graph its answer is expected, with the tolerance of the dtype; else the
graph has to run. tests/types_exceptions.txt holds what is known to differ, a pattern of case names and why a line; a pattern
that no failure matches is a failure.
"""
import argparse
import fnmatch
import json
import pathlib
import re
import shutil
import subprocess
import sys
import warnings

import ml_dtypes
import numpy as np
import onnx
from onnx import defs, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

HERE = pathlib.Path(__file__).resolve().parent
TEMPLATES = 2  # a type parameter and dtype
NAMES = {"float": "FLOAT", "double": "DOUBLE", "bool": "BOOL", "string": "STRING"}
# Drawn, decoded or in need of other values than a cast gives: their own tests have them.
LEFT_OUT = {"ImageDecoder", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout", "Constant", "Loop",
            "Scan", "If", "SequenceMap", "Optional", "OptionalGetElement", "OptionalHasElement", "BitCast", "TfIdfVectorizer",
            "SplitToSequence"}


def element_types(schema, parameter):
    """The tensor dtypes that a type parameter (or a plain type) allows, as numbers of TensorProto."""
    constraint = next((c for c in schema.type_constraints if c.type_param_str == parameter), None)
    texts = constraint.allowed_type_strs if constraint else [parameter]
    found = [re.fullmatch(r"tensor\((\w+)\)", t) for t in texts]
    return [getattr(onnx.TensorProto, NAMES.get(m[1], m[1].upper())) for m in found if m]


def recast(value, number):
    """The values as another dtype: what stands for 0.3 among integers is 1, and a string says the number."""
    if number == onnx.TensorProto.STRING:
        return np.array([str(x) for x in value.reshape(-1)], dtype=object).reshape(value.shape)
    dtype = helper.tensor_dtype_to_np_dtype(number)
    if value.dtype == object or value.dtype == dtype:
        return value if value.dtype == dtype else None
    wide = value.astype(np.float64) if value.dtype.kind not in "c" else value.real.astype(np.float64)
    if dtype == np.bool_:
        return wide > 0.25
    if dtype.kind in "iu" or dtype.name.startswith(("int", "uint")):
        info = ml_dtypes.iinfo(dtype)
        scaled = wide if value.dtype.kind in "iu" else np.round(wide * 3)
        return np.clip(np.nan_to_num(scaled), info.min, info.max).astype(np.int64).astype(dtype)
    return wide.astype(dtype)


def templates(cases):
    """operator -> [(model, inputs)] of one node, the newest opsets first."""
    found = {}
    for folder in sorted(cases.iterdir()):
        model_file = folder / "model.onnx"
        if not model_file.exists():
            continue
        model = onnx.load(model_file)
        if len(model.graph.node) != 1 or model.functions or model.graph.initializer:
            continue
        node = model.graph.node[0]
        if node.op_type in LEFT_OUT or node.domain not in ("", "ai.onnx") or any(a.HasField("g") for a in node.attribute):
            continue
        inputs = []
        for path in sorted((folder / "test_data_set_0").glob("input_*.pb"), key=lambda p: int(p.stem.split("_")[1])):
            tensor = onnx.TensorProto()
            try:
                tensor.ParseFromString(path.read_bytes())
                inputs.append(numpy_helper.to_array(tensor))
            except Exception:  # noqa: BLE001: a sequence or an optional
                break
        if len(inputs) == len(model.graph.input):
            found.setdefault(node.op_type, []).append((model.opset_import[0].version, folder.name, model, inputs))
    return {k: [v[1:] for v in sorted(rows, key=lambda r: (-r[0], r[1]))] for k, rows in found.items()}


def tolerance(dtype):
    if dtype == np.float64:
        return 1e-7
    if dtype == np.float32:
        return 1e-4
    if dtype == np.float16:
        return 1e-2
    return 0.07 if dtype == ml_dtypes.bfloat16 else 0


def write(folder, model, inputs, expected):
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for i, (info, value) in enumerate(zip(model.graph.input, inputs)):
        (data / f"input_{i}.pb").write_bytes(numpy_helper.from_array(value, info.name).SerializeToString())
    worst = 0.0
    for i, (info, value) in enumerate(zip(model.graph.output, expected or [])):
        (data / f"output_{i}.pb").write_bytes(numpy_helper.from_array(value, info.name).SerializeToString())
        worst = max(worst, tolerance(value.dtype))
    (folder / "meta.json").write_text(json.dumps({"rtol": worst, "atol": worst}))


def with_dtype(schema, model, inputs, parameter, number):
    """The template with all inputs of a type parameter in another dtype; None where that says nothing new."""
    node = model.graph.node[0]
    by_name = dict(zip([i.name for i in model.graph.input], inputs))
    changed = {}
    for i, name in enumerate(node.input):
        formal = schema.inputs[min(i, len(schema.inputs) - 1)]
        if name and formal.type_str == parameter:
            if (value := recast(by_name[name], number)) is None:
                return None
            changed[name] = value
    if not changed:
        return None
    made = onnx.ModelProto()
    made.CopyFrom(model)
    values = [changed.get(i.name, v) for i, v in zip(made.graph.input, inputs)]
    del made.graph.input[:]
    made.graph.input.extend(
        helper.make_tensor_value_info(i.name, numpy_helper.from_array(v).data_type, v.shape)
        for i, v in zip(model.graph.input, values))
    names = [o.name for o in made.graph.output]
    del made.graph.output[:]
    made.graph.output.extend(helper.make_empty_tensor_value_info(n) for n in names)
    made.ir_version = max(made.ir_version, 13)
    return made, values


def build(cases, folder, only):
    count = 0
    for operator, rows in templates(cases).items():
        if only and operator != only:
            continue
        for parameter in sorted({i.type_str for i in defs.get_schema(operator).inputs}):
            for number in element_types(defs.get_schema(operator), parameter):
                made = 0
                for name, model, inputs in rows:
                    if made == TEMPLATES:
                        break
                    schema = defs.get_schema(operator, model.opset_import[0].version)
                    if number not in element_types(schema, parameter):
                        continue
                    one = with_dtype(schema, model, inputs, parameter, number)
                    if one is None:
                        continue
                    try:
                        with np.errstate(all="ignore"):
                            expected = ReferenceEvaluator(one[0]).run(None, dict(zip([i.name for i in one[0].graph.input],
                                                                                     one[1])))
                        expected = [np.asarray(e) for e in expected]
                        if any(e.dtype == object and number != onnx.TensorProto.STRING for e in expected):
                            expected = None
                    except Exception:  # noqa: BLE001: what it does not compute
                        expected = None
                    dtype = onnx.TensorProto.DataType.Name(number).lower()
                    case = folder / f"{operator}-{parameter.replace('(', '_').replace(')', '')}-{dtype}-{made}"
                    try:
                        write(case, *one, expected)
                    except Exception:  # noqa: BLE001: an answer that no file can hold
                        shutil.rmtree(case, ignore_errors=True)
                        continue
                    made += 1
                    count += 1
    return count


def judge(failures, total, file):
    """Prints failures that no row of the exceptions explains, and rows that explain nothing; the closing line."""
    rows = [line.split(maxsplit=1) for line in file.read_text().splitlines() if line and not line.startswith("#")]
    used, bad = set(), 0
    for case, line in failures.items():
        matching = [pattern for pattern, _ in rows if fnmatch.fnmatchcase(case, pattern)]
        used.update(matching)
        if not matching:
            bad += 1
            print(line)
    for pattern, _ in rows:
        if pattern not in used:
            bad += 1
            print(f"{file.name}: nothing fails that {pattern} matches")
    excepted = sum(any(fnmatch.fnmatchcase(c, p) for p, _ in rows) for c in failures)
    print(f"{total - len(failures)} passed, {bad} failed, {excepted} skipped")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--operator")
    parser.add_argument("--keep", action="store_true", help="take the models that are there")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if not (arguments.keep and arguments.folder.is_dir()):
        partial = arguments.folder.with_name(arguments.folder.name + ".part")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(arguments.folder, ignore_errors=True)
        print(f"{build(arguments.cases, partial, arguments.operator)} graphs")
        partial.rename(arguments.folder)
    command = [arguments.program, "test", arguments.folder, "--backend", arguments.backend, "--threads", "1", "--jobs", "2"]
    result = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in result.stdout.splitlines() if line.startswith("FAIL ")]
    failures = {line.split()[1].rstrip(":").split("/")[1]: line for line in lines}
    total = re.search(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", result.stdout, re.M)
    if not total:
        sys.exit(result.stderr or result.stdout or f"no answer, exit status {result.returncode}")
    if arguments.operator:  # of a part no row can be judged
        print("\n".join(lines))
        return 0
    return judge(failures, sum(int(n) for n in total.groups()), HERE / "types_exceptions.txt")


if __name__ == "__main__":
    sys.exit(main())
