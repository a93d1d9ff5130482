"""Unary, binary and n-ary operators: dtypes, broadcasting, empty tensors, 0-d, rank 8, the edges of each function."""
import numpy as np

F = np.float32
EDGES = np.array([-np.inf, -3.5, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 2.5, 87.0, np.inf, np.nan], F)
UNARY = {  # operator: (lowest, highest) of its random inputs
    "Abs": (-3, 3), "Acos": (-1, 1), "Acosh": (1, 4), "Asin": (-1, 1), "Asinh": (-3, 3), "Atan": (-3, 3),
    "Atanh": (-0.9, 0.9), "Ceil": (-3, 3), "Cos": (-6, 6), "Cosh": (-3, 3), "Erf": (-3, 3), "Exp": (-3, 3),
    "Floor": (-3, 3), "Log": (0.1, 4), "Neg": (-3, 3), "Reciprocal": (0.5, 3), "Round": (-3, 3), "Sigmoid": (-6, 6),
    "Sign": (-3, 3), "Sin": (-6, 6), "Sinh": (-3, 3), "Softplus": (-6, 6), "Softsign": (-6, 6), "Sqrt": (0, 4),
    "Tan": (-1, 1), "Tanh": (-3, 3), "Relu": (-3, 3), "Elu": (-3, 3), "Selu": (-3, 3), "LeakyRelu": (-3, 3),
    "ThresholdedRelu": (-3, 3), "HardSigmoid": (-6, 6), "HardSwish": (-6, 6), "Mish": (-4, 4), "Celu": (-3, 3),
    "Gelu": (-4, 4), "Swish": (-4, 4), "IsNaN": (-1, 1), "IsInf": (-1, 1),
}
ATTRIBUTES = {"Elu": {"alpha": 0.7}, "Selu": {"alpha": 1.5, "gamma": 1.2}, "LeakyRelu": {"alpha": 0.2},
              "ThresholdedRelu": {"alpha": 0.4}, "HardSigmoid": {"alpha": 0.3, "beta": 0.4}, "Celu": {"alpha": 1.5},
              "Gelu": {"approximate": "tanh"}, "Swish": {"alpha": 0.5}}
VERSIONS = {"Swish": 24}
# Left out of the edges: what their definitions give there is decided by rounding or by the runtime.
NO_EDGES = {"Acosh", "Acos", "Asin", "Atanh", "Gelu", "Mish", "HardSwish", "Swish", "Selu", "Elu", "Celu", "Softplus", "Tan",
            "Sin", "Cos", "Sinh", "Cosh", "Softsign", "ThresholdedRelu", "HardSigmoid", "Relu", "LeakyRelu", "Asinh", "Sign"}


def unary(add):
    for op, (low, high) in UNARY.items():
        kind = {"atol": 2e-6}
        version = VERSIONS.get(op)
        for dtype in (np.float32, np.float64):
            name = f"{op}_{np.dtype(dtype).name}"
            x = add.rng(name).uniform(low, high, (2, 3, 5)).astype(dtype)
            # Celu takes float64 since opset 28.
            at = 28 if op == "Celu" and dtype == np.float64 else version
            add.add(name, op, [x], version=at, **kind)
            if op in ATTRIBUTES:
                add.add(name + "_attributes", op, [x], ATTRIBUTES[op], version=at, **kind)
        for shape in ((), (0, 3), (1, 2, 1, 2, 1, 2, 1, 2)):
            name = f"{op}_rank{len(shape)}{'_empty' if 0 in shape else ''}"
            add.add(name, op, [add.rng(name).uniform(low, high, shape).astype(F)], version=version, **kind)
        if op not in NO_EDGES:
            add.add(f"{op}_edges", op, [EDGES], version=version)
    for op in ("Sin", "Cos"):
        add.add(f"{op}_large", op, [np.array([1e3, -1e4, 12345.678, 1e5], F)], expected=getattr(np, op.lower())(
            np.array([1e3, -1e4, 12345.678, 1e5], F).astype(np.float64)).astype(F), atol=1e-6)
    for positive, negative in ((0, 1), (1, 0)):
        add.add(f"IsInf_{positive}{negative}", "IsInf", [EDGES], {"detect_positive": positive, "detect_negative": negative})


def binary(add):
    shapes = {"same": ((2, 3), (2, 3)), "row": ((2, 3), (3,)), "both": ((2, 1, 3), (4, 1)), "0d": ((2, 3), ()),
              "empty": ((0, 3), (1, 3)), "rank8": ((1, 2, 1, 2, 1, 1, 1, 2), (2, 1, 2, 1))}
    for op in ("Add", "Sub", "Mul", "Div"):
        for label, (a, b) in shapes.items():
            r = add.rng(op + label)
            add.add(f"{op}_{label}", op, [r.uniform(1, 3, a).astype(F), r.uniform(1, 3, b).astype(F)])
        for dtype in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float64):
            info = np.iinfo(dtype) if dtype != np.float64 else None
            a = np.array([info.max, info.min, 7, info.max // 2] if info else [1.5, -2, 7, 1e9], dtype)
            b = np.array([2, 3, 5, 3]).astype(dtype)
            with np.errstate(all="ignore"):
                y = {"Add": a + b, "Sub": a - b, "Mul": a * b,
                     "Div": a / b if not info else (np.abs(a.astype(object)) // b * np.sign(a.astype(object))).astype(dtype)}
            add.add(f"{op}_{np.dtype(dtype).name}_wraps", op, [a, b], expected=y[op].astype(dtype))
    for op in ("Pow",):
        for left in (np.int32, np.int64, np.float32, np.float64):
            for right in (np.int32, np.int64, np.float32, np.float64):
                a, b = np.array([2, 3, 1, 5]).astype(left), np.array([3, 2, 0, 1]).astype(right)
                add.add(f"Pow_{np.dtype(left).name}_{np.dtype(right).name}", op, [a, b])
    for fmod in (0, 1):
        for dtype in (np.int8, np.int32, np.int64, np.float32, np.float64):
            if dtype in (np.float32, np.float64) and not fmod:
                continue
            a, b = np.array([7, -7, 5, -5, 6]).astype(dtype), np.array([3, 3, -3, -3, 2]).astype(dtype)
            add.add(f"Mod_{np.dtype(dtype).name}_{fmod}", "Mod", [a, b], {"fmod": fmod},
                    expected=np.fmod(a, b) if fmod else np.mod(a, b))
    for op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
        a = np.array([1, 2, 3, np.nan, np.inf, -0.0], F)
        add.add(f"{op}_nan", op, [a, np.array([2, 2, 2, np.nan, np.inf, 0.0], F)])
        for dtype in (np.int8, np.uint8, np.int16, np.uint32, np.uint64, np.int64, np.float64):
            x = np.array([0, 1, np.iinfo(dtype).max if dtype != np.float64 else 1e300], dtype)
            add.add(f"{op}_{np.dtype(dtype).name}", op, [x, x[::-1].copy()])
    for op in ("And", "Or", "Xor"):
        add.add(op, op, [np.array([[True], [False]]), np.array([True, False])])
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        for dtype in (np.int8, np.uint8, np.int32, np.uint64):
            add.add(f"{op}_{np.dtype(dtype).name}", op, [np.array([[3], [12]], dtype), np.array([5, 10], dtype)])
    for dtype in (np.uint8, np.uint16, np.uint32, np.uint64):
        bits = np.dtype(dtype).itemsize * 8
        x, by = np.array([1, 255, 16, 3], dtype), np.array([1, bits - 1, bits, 2], dtype)
        for direction in ("LEFT", "RIGHT"):
            y = [(int(v) << int(s) if direction == "LEFT" else int(v) >> int(s)) % (1 << bits) for v, s in zip(x, by)]
            add.add(f"BitShift_{direction}_{bits}", "BitShift", [x, by], {"direction": direction},
                    expected=np.array(y, dtype))
    add.add("Not", "Not", [np.array([[True, False]])])
    add.add("BitwiseNot_uint16", "BitwiseNot", [np.array([0, 1, 65535], np.uint16)])
    add.add("Where_broadcast", "Where", [np.array([[True], [False]]), np.array([1, 2, 3], F), np.array(0, F)])
    for op in ("Max", "Min", "Sum", "Mean"):
        r = add.rng(op)
        for count in (1, 2, 4):
            add.add(f"{op}_{count}", op, [r.normal(size=s).astype(F) for s in ((2, 1), (3,), (), (1, 2, 3))][:count],
                    by="onnxruntime")
    for low, high in ((None, 1.0), (-1.0, None), (None, None), (-1.0, 1.0), (1.0, -1.0)):
        bounds = [None if v is None else np.array(v, F) for v in (low, high)]
        add.add(f"Clip_{low}_{high}", "Clip", [np.array([-2, 0.5, 3, np.nan], F), *bounds],
                expected=np.array([v if v != v else min(max(v, -np.inf if low is None else low),
                                                        np.inf if high is None else high) for v in (-2, 0.5, 3, np.nan)], F))
    for dtype in (np.int8, np.uint8, np.int64, np.float64):
        add.add(f"Clip_{np.dtype(dtype).name}", "Clip", [np.array([0, 5, 100]).astype(dtype), np.array(2, dtype),
                                                         np.array(50, dtype)])
    add.add("PRelu_channels", "PRelu", [add.rng("prelu").normal(size=(2, 3, 4)).astype(F),
                                        np.array([[0.1], [0.2], [0.3]], F)])


def casts(add):
    from onnx import TensorProto as T
    numbers = np.array([-300.7, -129, -1.5, -0.4, 0, 0.6, 1.5, 127.9, 200], np.float64)
    for source in (np.float16, np.float32, np.float64, np.int8, np.int32, np.int64, np.uint8, np.bool_):
        for target in (np.float16, np.float32, np.float64, np.int16, np.int32, np.int64, np.bool_):
            x = np.clip(numbers, 0, 200) if source in (np.uint8, np.bool_) else numbers
            x = np.clip(x, -128, 127) if source is np.int8 else x
            x = x.astype(source)
            to = {np.float16: T.FLOAT16, np.float32: T.FLOAT, np.float64: T.DOUBLE, np.int16: T.INT16, np.int32: T.INT32,
                  np.int64: T.INT64, np.bool_: T.BOOL}[target]
            add.add(f"Cast_{np.dtype(source).name}_{np.dtype(target).name}", "Cast", [x], {"to": to},
                    expected=x.astype(target))
    add.add("Cast_saturates", "Cast", [np.array([np.nan, np.inf, -np.inf, 1e20, -1e20], F)], {"to": T.INT32},
            expected=np.array([0, 2**31 - 1, -2**31, 2**31 - 1, -2**31], np.int32), by="hand",
            note="undefined in the specification: guides/architecture.md")
    add.add("Cast_to_string", "Cast", [np.array([1, -2, 300], np.int64)], {"to": T.STRING}, by="onnxruntime")


def divisions(add):
    """Of integers: x / 0 has all bits set, x mod 0 is x, and the least number divided by -1 stays; on every backend."""
    for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64):
        info, label = np.iinfo(dtype), np.dtype(dtype).name
        edges = [info.min, info.min + 1, 0, 1, 7, info.max - 1, info.max] + ([-1, -7] if info.min else [])
        x, y = (v.reshape(-1).astype(dtype) for v in np.meshgrid(np.array(edges, dtype), np.array([0, 1, 3, info.max] + (
            [-1, -3, info.min] if info.min else []), dtype)))
        quotient, remainder, floor_mod = (np.empty_like(x) for _ in range(3))
        for i, (a, b) in enumerate(zip(map(int, x), map(int, y))):
            q = -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            r = a if b == 0 else a - q * b
            m = a if b == 0 else a % b
            for to, v in ((quotient, q), (remainder, r), (floor_mod, m)):
                to[i] = np.array(v % 2**64, np.uint64).astype(dtype)
        add.add(f"Div_edges_{label}", "Div", [x, y], expected=quotient)
        add.add(f"Div_edges_{label}_constant", "Div", [x, y], expected=quotient, constants=[1])
        add.add(f"Div_by_0_{label}", "Div", [x, np.array(0, dtype)], expected=np.full_like(x, info.max if not info.min else -1),
                constants=[1])
        add.add(f"Mod_edges_{label}", "Mod", [x, y], expected=floor_mod)
        add.add(f"Mod_edges_{label}_fmod", "Mod", [x, y], {"fmod": 1}, expected=remainder)
        add.add(f"Mod_by_0_{label}", "Mod", [x, np.array(0, dtype)], expected=x, constants=[1])


def add_cases(add):
    divisions(add)
    unary(add)
    binary(add)
    casts(add)
