"""QuantizeLinear and its kin; integer products at the extremes of their dtypes, exact."""
import ml_dtypes
import numpy as np
from onnx import helper

F = np.float32


def saturated(values, dtype):
    info = np.iinfo(dtype)
    return np.clip(values, info.min, info.max).astype(dtype)


def linear(add):
    x = np.array([[-1000, -1.5, -0.5, 0.25], [0.5, 0.75, 1.25, 1000]], F)
    for dtype in (np.int8, np.uint8, np.int16, np.uint16):
        for zero in (0, 3):
            y = saturated(np.rint(x / F(0.5)) + zero, dtype)
            label = f"{np.dtype(dtype).name}_{zero}"
            parameters = [np.array(0.5, F), np.array(zero, dtype)]
            add.add("QuantizeLinear_" + label, "QuantizeLinear", [x, *parameters], version=21, expected=y)
            add.add("DequantizeLinear_" + label, "DequantizeLinear", [y, *parameters], version=21,
                    expected=(y.astype(F) - zero) * F(0.5))
    scales, zeros = np.array([0.5, 2], F), np.array([1, -1], np.int8)
    y = saturated(np.rint(x / scales[:, None]) + zeros[:, None], np.int8)
    add.add("QuantizeLinear_rows", "QuantizeLinear", [x, scales, zeros], {"axis": 0}, version=21, expected=y)
    add.add("DequantizeLinear_rows", "DequantizeLinear", [y, scales, zeros], {"axis": 0}, version=21,
            expected=(y.astype(F) - zeros[:, None]) * scales[:, None])
    blocks = np.array([[0.5, 1], [2, 4]], F)
    wide = blocks.repeat(2, 1)
    add.add("QuantizeLinear_blocks", "QuantizeLinear", [x, blocks, np.zeros((2, 2), np.uint8)], {"axis": 1, "block_size": 2},
            version=21, expected=saturated(np.rint(x / wide), np.uint8))
    add.add("DequantizeLinear_i32", "DequantizeLinear", [np.array([-7, 100000], np.int32), np.array(0.5, F)],
            expected=np.array([-3.5, 50000], F))
    for label, values in {"signed": [-1, 0, 2], "positive": [1, 2, 3], "negative": [-3, -1, -2]}.items():
        add.add("DynamicQuantizeLinear_" + label, "DynamicQuantizeLinear", [np.array(values, F)], outputs=3)


def products(add):
    extremes = {np.uint8: (0, 255), np.int8: (-128, 127)}
    for a in extremes:
        for b in extremes:
            for ka in extremes[a]:
                for kb in extremes[b]:
                    x, y = np.full((2, 768), ka, a), np.full((768, 3), kb, b)
                    y[::2, 0] = extremes[b][1]
                    name = f"MatMulInteger_{np.dtype(a).name}_{ka}_{np.dtype(b).name}_{kb}".replace("-", "m")
                    exact = (x.astype(np.int64) @ y.astype(np.int64)).astype(np.int32)
                    add.add(name, "MatMulInteger", [x, y], expected=exact)
                    add.add(name + "_constant", "MatMulInteger", [x, y], expected=exact, constants=[1])
            r = add.rng(f"{a}{b}")
            x = r.integers(*extremes[a], (5, 33), endpoint=True).astype(a)
            y = r.integers(*extremes[b], (33, 7), endpoint=True).astype(b)
            za, zb = np.array(3, a), np.array(-5 if b is np.int8 else 7, b)
            exact = ((x.astype(np.int64) - int(za)) @ (y.astype(np.int64) - int(zb))).astype(np.int32)
            label = f"{np.dtype(a).name}_{np.dtype(b).name}"
            add.add(f"MatMulInteger_{label}_zeros", "MatMulInteger", [x, y, za, zb], expected=exact)
            sa, sb, sy, zy = (np.array(v, F) for v in (0.02, 0.03, 0.7, 0))
            zero = np.array(4, a)
            scaled = np.rint(exact.astype(np.float64) * (0.02 * 0.03 / 0.7)) + 4
            add.add(f"QLinearMatMul_{label}", "QLinearMatMul", [x, sa, za, y, sb, zb, sy, zero],
                    expected=saturated(scaled, a))
            image = r.integers(*extremes[a], (1, 2, 5, 5), endpoint=True).astype(a)
            kernel = r.integers(*extremes[b], (3, 2, 3, 3), endpoint=True).astype(b)
            sums = np.zeros((1, 3, 3, 3), np.int64)
            for i in range(3):
                for j in range(3):
                    sums[0, :, i, j] = np.einsum("chw,mchw->m", image[0, :, i:i + 3, j:j + 3].astype(np.int64) - int(za),
                                                 kernel.astype(np.int64) - int(zb))
            add.add(f"ConvInteger_{label}", "ConvInteger", [image, kernel, za, zb], expected=sums.astype(np.int32))


def small_floats(add):
    """Six bits, and what has eight of them where saturate is 0; ml_dtypes rounds as the kinds' definitions say."""
    x = np.array([0.1, 1.3, 7.4, 7.6, -9, np.nan, np.inf, -0.0, 0.06, 0.0625, 27, -1e9, 0.3], F)
    for dtype in (ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn):
        name = np.dtype(dtype).name
        codes = np.arange(64, dtype=np.uint8).view(dtype)
        to = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        add.add(f"Cast_to_{name}", "Cast", [x], {"to": to}, version=28, expected=x.astype(dtype))
        add.add(f"Cast_to_{name}_f16", "Cast", [x[:5].astype(np.float16)], {"to": to}, version=28,
                expected=x[:5].astype(np.float16).astype(dtype))
        for wide in (np.float32, np.float16):
            add.add(f"Cast_from_{name}_{np.dtype(wide).name}", "Cast", [codes], {"to": helper.np_dtype_to_tensor_dtype(
                np.dtype(wide))}, version=28, expected=codes.astype(wide))
        add.add(f"Cast_from_{name}_constant", "Cast", [codes[:63]], {"to": 1}, version=28,
                expected=codes[:63].astype(F), constants=[0])
        rows, scales = x[np.isfinite(x)][:10].reshape(2, 5), np.array([0.5, 4], F)
        y = (rows / scales[:, None]).astype(dtype)
        zero = np.zeros(2, dtype)
        add.add(f"QuantizeLinear_{name}", "QuantizeLinear", [rows, scales, zero], {"axis": 0}, version=28, expected=y)
        add.add(f"DequantizeLinear_{name}", "DequantizeLinear", [y, scales, zero], {"axis": 0}, version=28,
                expected=y.astype(F) * scales[:, None])
        blocks = np.array([[0.5, 2, 1], [4, 0.25, 1]], F)
        wide = blocks.repeat(2, 1)[:, :5]
        add.add(f"DequantizeLinear_{name}_blocks", "DequantizeLinear", [y, blocks], {"axis": 1, "block_size": 2}, version=28,
                expected=y.astype(F) * wide)
    for dtype, most in ((ml_dtypes.float8_e4m3fn, 448), (ml_dtypes.float8_e5m2, 57344)):
        values = np.array([[1, most, most * 1.02, most * 2], [-most * 2, most / 3, np.inf, 0.1]], F)
        blocks = np.array([[1, 1], [1, 0.5]], F)
        add.add(f"QuantizeLinear_{np.dtype(dtype).name}_blocks_unsaturated", "QuantizeLinear",
                [values, blocks, np.zeros((2, 2), dtype)], {"axis": 1, "block_size": 2, "saturate": 0}, version=21,
                expected=(values / blocks.repeat(2, 1)).astype(dtype))


def add_cases(add):
    linear(add)
    products(add)
    small_floats(add)
