"""Reductions, arg extremes, softmax and its kin, norms, TopK."""
import itertools

import numpy as np

F = np.float32


def i64(*values):
    return np.array(values, np.int64)


REDUCTIONS = {
    "ReduceSum": np.sum, "ReduceProd": np.prod, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceMean": np.mean,
    "ReduceL1": lambda x, axis, keepdims: np.sum(np.abs(x), axis=axis, keepdims=keepdims),
    "ReduceL2": lambda x, axis, keepdims: np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims)),
    "ReduceSumSquare": lambda x, axis, keepdims: np.sum(x * x, axis=axis, keepdims=keepdims),
    "ReduceLogSum": lambda x, axis, keepdims: np.log(np.sum(x, axis=axis, keepdims=keepdims)),
    "ReduceLogSumExp": lambda x, axis, keepdims: np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims)),
}


def reductions(add):
    for op, function in REDUCTIONS.items():
        for axes in ((0,), (1,), (-1,), (0, 2), (0, 1, 2)):
            for keepdims in (0, 1):
                name = f"{op}_{'_'.join(map(str, axes))}_{'keep' if keepdims else 'drop'}"
                x = add.rng(name).uniform(0.5, 2, (3, 4, 5)).astype(np.float64)
                y = np.asarray(function(x, axis=axes, keepdims=bool(keepdims)))
                add.add(name, op, [x.astype(F), i64(*axes)], {"keepdims": keepdims}, version=18, constants=[1],
                        expected=y.astype(F), rtol=1e-5)
                if keepdims and axes in ((1,), (0, 2)):
                    add.add(name + "_attribute", op, [x.astype(F)], {"axes": axes, "keepdims": 1}, version=11,
                            expected=y.astype(F), rtol=1e-5)
                    add.add(name + "_f64", op, [x, i64(*axes)], {"keepdims": 1}, version=18, constants=[1], expected=y)
        x = add.rng(op).uniform(0.5, 2, (3, 4)).astype(F)
        add.add(op + "_all", op, [x], {"keepdims": 0}, version=18,
                expected=np.asarray(function(x.astype(np.float64), axis=None, keepdims=False)).astype(F), rtol=1e-5)
        add.add(op + "_0d", op, [np.array(1.5, F)], {"keepdims": 0}, version=18,
                expected=np.asarray(function(np.array(1.5), axis=None, keepdims=False)).astype(F))
    for op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"):
        for dtype in (np.int32, np.int64):
            add.add(f"{op}_{np.dtype(dtype).name}", op, [np.arange(1, 7).reshape(2, 3).astype(dtype), i64(1)], version=18,
                    constants=[1])
    for op in ("ReduceMax", "ReduceMin"):
        add.add(op + "_bool", op, [np.array([[True, False], [True, True]]), i64(1)], version=20, constants=[1])
        for dtype in (np.int8, np.uint8):
            add.add(f"{op}_{np.dtype(dtype).name}", op, [np.array([[3, 9], [0, 7]], dtype), i64(1)], version=18, constants=[1])
    for op, select in itertools.product(("ArgMax", "ArgMin"), (0, 1)):
        for axis, keepdims in ((0, 1), (-1, 0)):
            x = np.array([[2, 2, 1], [3, 1, 1], [3, 2, 0]], F)
            add.add(f"{op}_{axis}_{keepdims}_{select}", op, [x], {"axis": axis, "keepdims": keepdims,
                                                                   "select_last_index": select})


def rows(add):
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for version in (11, 13):
            for axis in (0, 1, -1):
                x = add.rng(op).normal(size=(2, 3, 4)).astype(F)
                add.add(f"{op}_{version}_{axis}", op, [x], {"axis": axis}, version=version, by="onnxruntime")
        add.add(op + "_large", op, [np.array([[1000, 1001, 999], [-1e30, 0, 1]], F)], {"axis": -1}, by="onnxruntime")
    for axis in (1, -1):
        r = add.rng(f"norm{axis}")
        x = r.normal(size=(2, 3, 4)).astype(F)
        shape = x.shape[axis:]
        scale, bias = r.normal(size=shape).astype(F), r.normal(size=shape).astype(F)
        add.add(f"LayerNormalization_{axis}", "LayerNormalization", [x, scale, bias], {"axis": axis}, atol=1e-5)
        add.add(f"LayerNormalization_{axis}_statistics", "LayerNormalization", [x, scale], {"axis": axis}, outputs=3,
                atol=1e-5)
        add.add(f"RMSNormalization_{axis}", "RMSNormalization", [x, scale], {"axis": axis, "epsilon": 1e-3}, by="onnx",
                atol=1e-5)
    x = add.rng("channels").normal(size=(2, 4, 3, 2)).astype(F)
    scale, bias = np.array([1, 2, -1, 0.5], F), np.array([0, 1, 2, 3], F)
    add.add("InstanceNormalization", "InstanceNormalization", [x, scale, bias], {"epsilon": 1e-3}, atol=1e-5)
    for groups in (1, 2, 4):
        add.add(f"GroupNormalization_{groups}", "GroupNormalization", [x, scale, bias], {"num_groups": groups}, version=21,
                atol=1e-5)
    mean, variance = np.array([0, 1, 2, -1], F), np.array([1, 2, 0.5, 3], F)
    add.add("BatchNormalization", "BatchNormalization", [x, scale, bias, mean, variance], {"epsilon": 1e-2}, atol=1e-5)
    add.add("BatchNormalization_training", "BatchNormalization", [x, scale, bias, mean, variance],
            {"epsilon": 1e-2, "training_mode": 1, "momentum": 0.7}, outputs=3, by="onnx", atol=1e-5)
    add.add("MeanVarianceNormalization", "MeanVarianceNormalization", [x], atol=1e-5)
    for p in (1, 2):
        for axis in (0, -1):
            norm = np.abs(x).sum(axis, keepdims=True) if p == 1 else np.sqrt((x * x).sum(axis, keepdims=True))
            add.add(f"LpNormalization_{p}_{axis}", "LpNormalization", [x], {"p": p, "axis": axis}, expected=x / norm)
    for size in (1, 3, 5):
        square = (x.astype(np.float64) ** 2)
        sums = np.zeros_like(square)
        for c in range(4):
            sums[:, c] = square[:, max(0, c - (size - 1) // 2):c + size // 2 + 1].sum(1)
        add.add(f"LRN_{size}", "LRN", [x], {"size": size, "alpha": 0.5, "beta": 0.6, "bias": 1.5},
                expected=(x / (1.5 + 0.5 / size * sums) ** 0.6).astype(F))
    for largest, is_sorted, axis in ((1, 1, -1), (0, 1, 0), (1, 1, 1)):
        for dtype in (np.float32, np.float64, np.int32, np.int64):
            y = (np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])).astype(dtype)
            add.add(f"TopK_{largest}_{axis}_{np.dtype(dtype).name}", "TopK", [y, i64(2)],
                    {"largest": largest, "sorted": is_sorted, "axis": axis}, outputs=2)


def add_cases(add):
    reductions(add)
    rows(add)
