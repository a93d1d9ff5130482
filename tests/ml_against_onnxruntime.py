#!/usr/bin/env python3
"""Checks operators on labels, strings and maps against ONNX Runtime: writes case folders with its answers, which
`transmuter test` then runs.

    ml_against_onnxruntime.py PROGRAM FOLDER [--seed N]

Models and inputs are random (the seed is printed); the last line is what `transmuter test` says.
"""

import argparse
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from make_op_cases import by_onnxruntime, proto

OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
NUMPY_TYPES = {np.dtype(k): v for k, v in {
    "float32": T.FLOAT, "float64": T.DOUBLE, "int64": T.INT64, "int32": T.INT32, "int16": T.INT16, "bool": T.BOOL,
}.items()}


def type_of(array):
    return T.STRING if array.dtype.kind in "UO" else NUMPY_TYPES[array.dtype]


class Cases:
    def __init__(self, folder, rng):
        self.folder = folder
        self.rng = rng
        self.count = 0
        self.refused = 0

    def add(self, name, node, inputs, outputs, ml_version=3, order=None):
        """`inputs`: name -> array; `outputs`: their names; `order`: of the keys of maps, whose values are compared as
        rows. Left out where ONNX Runtime has no kernel or refuses."""
        infos = [helper.make_tensor_value_info(k, type_of(v), [None] * v.ndim) for k, v in inputs.items()]
        graph = helper.make_graph([node] if not isinstance(node, list) else node, name, infos,
                                  [helper.make_empty_tensor_value_info(o) for o in outputs])
        model = helper.make_model(graph, ir_version=9,
                                  opset_imports=OPSETS + [helper.make_opsetid("ai.onnx.ml", ml_version)])
        feeds = {k: v.astype(object) if v.dtype.kind == "U" else v for k, v in inputs.items()}
        try:
            answers = by_onnxruntime(model, feeds)
        except Exception as error:  # noqa: BLE001: ONNX Runtime's errors have no common class
            self.refused += 1
            print(f"refused by ONNX Runtime: {name}: {str(error)[-160:]}", file=sys.stderr)
            return
        case = self.folder / f"{self.count:03d}_{name}"
        data = case / "test_data_set_0"
        data.mkdir(parents=True)
        declared = [helper.make_tensor_value_info(o, type_of(a), [None] * a.ndim) if isinstance(a, np.ndarray)
                    else maps_info(o, a) for o, a in zip(outputs, answers)]
        del model.graph.output[:]
        model.graph.output.extend(declared)
        onnx.save(model, case / "model.onnx")
        (case / "meta.json").write_text('{"atol": 1e-5, "rtol": 1e-4}')
        for i, (key, array) in enumerate(inputs.items()):
            (data / f"input_{i}.pb").write_bytes(proto(array, key))
        for i, (key, answer) in enumerate(zip(outputs, answers)):
            rows = answer if isinstance(answer, np.ndarray) else np.array(
                [[row[k] for k in order or row] for row in answer], np.float32)
            (data / f"output_{i}.pb").write_bytes(proto(rows, key))
        self.count += 1


def maps_info(name, maps):
    key = T.STRING if isinstance(next(iter(maps[0])), str) else T.INT64
    element = helper.make_map_type_proto(key, helper.make_tensor_type_proto(T.FLOAT, []))
    return helper.make_value_info(name, helper.make_sequence_type_proto(element))


TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]


def ml(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, domain="ai.onnx.ml", **attributes)


def labels(rng, count, integers, strings):
    if rng.random() < 0.5:
        return {strings: [f"class {chr(97 + i)}" for i in range(count)]}
    return {integers: [int(v) for v in rng.permutation(20)[:count]]}


def linear_classifiers(cases):
    rng = cases.rng
    for classes in (2, 3, 4):
        for rows in {1, classes} if classes == 2 else {classes}:
            for transform in TRANSFORMS[:4]:
                x = rng.normal(size=(6, 3)).astype(np.float32)
                node = ml("LinearClassifier", ["x"], ["label", "scores"],
                          coefficients=rng.normal(size=rows * 3).tolist(), intercepts=rng.normal(size=rows).tolist(),
                          post_transform=transform, **labels(rng, classes, "classlabels_ints", "classlabels_strings"))
                cases.add(f"linear_{classes}_{rows}_{transform.lower()}", node, {"x": x}, ["label", "scores"])


def svm_classifiers(cases):
    rng = cases.rng
    for classes in (2, 3, 4):
        for kernel in ("LINEAR", "RBF", "POLY", "SIGMOID"):
            for probabilities in (False, True):
                for transform in ("NONE", "LOGISTIC", "SOFTMAX") if kernel == "RBF" else ("NONE",):
                    for sign in (0, 1) if classes == 2 else (0,):
                        per_class = rng.integers(1, 4, classes)
                        vectors, pairs = int(per_class.sum()), classes * (classes - 1) // 2
                        coefficients = rng.normal(size=(classes - 1) * vectors)
                        attributes = {
                            "kernel_type": kernel, "kernel_params": [0.4, 0.3, 2.0], "post_transform": transform,
                            "vectors_per_class": [int(v) for v in per_class],
                            "support_vectors": rng.normal(size=vectors * 3).tolist(),
                            "coefficients": (np.abs(coefficients) if sign else coefficients).tolist(),
                            "rho": rng.normal(size=pairs).tolist(),
                            **labels(rng, classes, "classlabels_ints", "classlabels_strings"),
                        }
                        if probabilities:
                            attributes["prob_a"] = (-np.abs(rng.normal(size=pairs))).tolist()
                            attributes["prob_b"] = rng.normal(size=pairs, scale=0.3).tolist()
                        x = rng.normal(size=(7, 3)).astype(np.float32)
                        name = f"svm_{classes}_{kernel.lower()}_{transform.lower()}"
                        name += ("_probabilities" if probabilities else "") + ("_positive" if sign else "")
                        cases.add(name, ml("SVMClassifier", ["x"], ["label", "scores"], **attributes), {"x": x},
                                  ["label", "scores"])
        for transform in ("NONE", "SOFTMAX"):  # without support vectors: rows of coefficients
            attributes = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0], "post_transform": transform,
                          "coefficients": rng.normal(size=classes * 3).tolist(), "rho": rng.normal(size=1).tolist(),
                          **labels(rng, classes, "classlabels_ints", "classlabels_strings")}
            x = rng.normal(size=(7, 3)).astype(np.float32)
            cases.add(f"svm_linear_rows_{classes}_{transform.lower()}",
                      ml("SVMClassifier", ["x"], ["label", "scores"], **attributes), {"x": x}, ["label", "scores"])


def stump_forest(rng, classes, trees, one_class, positive):
    """Trees of depth 1 on random features."""
    lists = {k: [] for k in ("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_values", "nodes_modes",
                             "nodes_truenodeids", "nodes_falsenodeids", "class_treeids", "class_nodeids", "class_ids",
                             "class_weights")}
    for tree in range(trees):
        for node in range(3):
            lists["nodes_treeids"].append(tree)
            lists["nodes_nodeids"].append(node)
            lists["nodes_featureids"].append(int(rng.integers(3)) if node == 0 else 0)
            lists["nodes_values"].append(float(rng.normal()) if node == 0 else 0.0)
            lists["nodes_modes"].append("BRANCH_LEQ" if node == 0 else "LEAF")
            lists["nodes_truenodeids"].append(1 if node == 0 else 0)
            lists["nodes_falsenodeids"].append(2 if node == 0 else 0)
        for leaf in (1, 2):
            for target in [one_class] if one_class is not None else range(classes):
                lists["class_treeids"].append(tree)
                lists["class_nodeids"].append(leaf)
                lists["class_ids"].append(target)
                weight = float(rng.normal())
                lists["class_weights"].append(abs(weight) / trees if positive else weight)
    return lists


def tree_classifiers(cases):
    """Two classes that both have weights are left out: the specification wants the top class, ONNX Runtime gives the
    number 1 wherever the second score is positive, whatever the labels are."""
    rng = cases.rng
    for classes in (2, 3):
        for one_class in (0, 1) if classes == 2 else (None,):
            for positive in (True, False):
                for transform in TRANSFORMS[:4]:
                    for base in (None, 1 if one_class is not None else classes):
                        attributes = stump_forest(rng, classes, 3, one_class, positive)
                        attributes.update(labels(rng, classes, "classlabels_int64s", "classlabels_strings"))
                        if base:
                            attributes["base_values"] = rng.normal(size=base).tolist()
                        x = rng.normal(size=(8, 3)).astype(np.float32)
                        name = f"trees_{classes}_{'all' if one_class is None else one_class}_{transform.lower()}"
                        name += ("_positive" if positive else "") + ("_base" if base else "")
                        cases.add(name, ml("TreeEnsembleClassifier", ["x"], ["label", "scores"],
                                           post_transform=transform, **attributes), {"x": x}, ["label", "scores"])


def label_encoders(cases):
    rng = cases.rng
    kinds = {"strings": np.array(["a", "b", "c", ""]), "int64s": np.array([3, -1, 7, 0], np.int64),
             "floats": np.array([0.5, -2, np.nan, 1], np.float32)}
    for key, keys in kinds.items():
        for value, values in kinds.items():
            for default in (False, True):
                attributes = {f"keys_{key}": keys[:3].tolist(), f"values_{value}": values[:3].tolist()}
                if default:
                    attributes[{"strings": "default_string", "int64s": "default_int64", "floats": "default_float"}[
                        value]] = {"strings": "none", "int64s": 42, "floats": 4.5}[value]
                x = keys[rng.integers(4, size=(2, 3))]
                for version in (2, 4):
                    cases.add(f"labels_{version}_{key}_{value}" + ("_default" if default else ""),
                              ml("LabelEncoder", ["x"], ["y"], **attributes), {"x": x}, ["y"], version)
    for dtype in (np.int64, np.float32, np.float64, np.int16):
        for out in (np.int64, np.float32, np.float64, np.int16):
            keys, values = np.array([1, 2, 5], dtype), np.array([10, 20, 30], out)
            cases.add(f"labels_tensors_{np.dtype(dtype)}_{np.dtype(out)}",
                      ml("LabelEncoder", ["x"], ["y"], keys_tensor=numpy_helper.from_array(keys),
                         values_tensor=numpy_helper.from_array(values),
                         default_tensor=numpy_helper.from_array(np.array([7], out))),
                      {"x": np.array([[2, 5], [9, 1]], dtype)}, ["y"], 4)
    for x in (np.array(["b", "z", "a"]), np.array([1, 9, 0], np.int64)):
        cases.add(f"labels_classes_{x.dtype.kind}".lower(),
                  ml("LabelEncoder", ["x"], ["y"], classes_strings=["a", "b"]), {"x": x}, ["y"], 1)
        cases.add(f"categories_{x.dtype.kind}".lower(),
                  ml("CategoryMapper", ["x"], ["y"], cats_strings=["a", "b"], cats_int64s=[1, 5],
                     default_string="?", default_int64=-3), {"x": x}, ["y"], 1)


def zip_maps(cases):
    rng = cases.rng
    for attributes in ({"classlabels_strings": ["p", "q", "r"]}, {"classlabels_int64s": [5, 1, 3]}):
        for shape in ((4, 3), (3,)):
            x = rng.normal(size=shape).astype(np.float32)
            kind = next(iter(attributes)).split("_")[1]
            cases.add(f"zip_{kind}_{len(shape)}", ml("ZipMap", ["x"], ["maps"], **attributes), {"x": x}, ["maps"],
                      order=next(iter(attributes.values())))


def bifurcation(cases):
    rng = cases.rng
    for i in range(12):
        source = rng.integers(0, 4, rng.integers(1, 9)).astype(np.int64)
        inputs = {"source": source, "current": rng.integers(0, 4, rng.integers(1, 5)).astype(np.int64),
                  "previous": rng.integers(0, len(source) + 1, 1).astype(np.int64)}
        if i % 2:
            rest = source[inputs["previous"][0]:]
            predicted = np.append(rest, 0)
            predicted[rng.random(len(predicted)) < 0.3] = 2
            inputs["predicted"] = predicted.astype(np.int64)
        node = helper.make_node("BifurcationDetector", list(inputs), ["tokens", "place"], domain="com.microsoft",
                                min_ngram_size=1 + i % 2, max_ngram_size=3)
        cases.add(f"bifurcation_{i}", node, inputs, ["tokens", "place"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.folder.exists() and any(options.folder.iterdir()):
        sys.exit(f"{options.folder} is not empty")
    print(f"seed {options.seed}")
    cases = Cases(options.folder, np.random.default_rng(options.seed))
    for make in (linear_classifiers, svm_classifiers, tree_classifiers, label_encoders, zip_maps, bifurcation):
        make(cases)
    print(f"{cases.count} cases, {cases.refused} refused by ONNX Runtime", flush=True)
    sys.exit(subprocess.run([options.program, "test", str(options.folder)], check=False).returncode)


if __name__ == "__main__":
    main()
