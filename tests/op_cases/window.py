"""Pools, resizes, sampling, boxes, signals."""
import itertools

import numpy as np

F = np.float32


def pools(add):
    for rank in (1, 2, 3):
        x = add.rng(f"pool{rank}").permutation(2 * 2 * 7 ** rank).reshape(2, 2, *(7,) * rank).astype(F)
        for label, attributes in {"plain": {}, "strides": {"strides": [2] * rank}, "pads": {"pads": [1] * (2 * rank)},
                                  "ceil": {"strides": [2] * rank, "ceil_mode": 1},
                                  "same": {"auto_pad": "SAME_LOWER", "strides": [2] * rank},
                                  "dilated": {"dilations": [2] * rank}}.items():
            base = {"kernel_shape": [3] * rank, **attributes}
            add.add(f"MaxPool{rank}d_{label}", "MaxPool", [x], base, by="onnxruntime" if label == "same" else None)
            if label != "dilated":
                for include in (0, 1):
                    add.add(f"AveragePool{rank}d_{label}_{include}", "AveragePool", [x], {**base, "count_include_pad": include},
                            by="onnxruntime", atol=1e-4)
                add.add(f"LpPool{rank}d_{label}", "LpPool", [x], {**base, "p": 2}, by="onnxruntime", atol=1e-3)
        add.add(f"MaxPool{rank}d_indices", "MaxPool", [x], {"kernel_shape": [2] * rank, "strides": [2] * rank}, outputs=2)
        axes = tuple(range(2, rank + 2))
        for op, y in {"GlobalAveragePool": x.mean(axes, keepdims=True), "GlobalMaxPool": x.max(axes, keepdims=True),
                      "GlobalLpPool": np.sqrt((x.astype(np.float64) ** 2).sum(axes, keepdims=True))}.items():
            add.add(f"{op}{rank}d", op, [x], expected=y.astype(F), atol=1e-3)
    for dtype in (np.int8, np.uint8):
        x = np.arange(25).reshape(1, 1, 5, 5).astype(dtype)
        add.add(f"MaxPool_{np.dtype(dtype).name}", "MaxPool", [x], {"kernel_shape": [2, 2]})


def resizes(add):
    x = add.rng("resize").normal(size=(1, 2, 4, 5)).astype(F)
    none = np.array([], F)
    for mode, coordinates in itertools.product(("nearest", "linear", "cubic"), ("half_pixel", "asymmetric", "align_corners",
                                                                                "pytorch_half_pixel")):
        for height, width in ((8, 10), (2, 3), (6, 5)):
            name = f"Resize_{mode}_{coordinates}_{height}x{width}"
            add.add(name, "Resize", [x, None, None, np.array([1, 2, height, width], np.int64)],
                    {"mode": mode, "coordinate_transformation_mode": coordinates}, by="onnxruntime", version=19, atol=1e-4,
                    constants=[3])
    for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        add.add(f"Resize_nearest_{nearest}", "Resize", [x, None, np.array([1, 1, 1.5, 0.8], F)],
                {"mode": "nearest", "nearest_mode": nearest}, version=19)
    add.add("Resize_10", "Resize", [x, np.array([1, 1, 2, 2], F)], {"mode": "linear"}, version=10, by="onnxruntime", atol=1e-5)
    add.add("Resize_11", "Resize", [x, none, np.array([1, 1, 2, 2], F)], {"mode": "linear"}, version=11, by="onnxruntime",
            atol=1e-5)
    add.add("Upsample_9", "Upsample", [x, np.array([1, 1, 2, 3], F)], {"mode": "nearest"}, version=9,
            expected=x.repeat(2, 2).repeat(3, 3))


def sampling(add):
    r = add.rng("sampling")
    x, grid = r.normal(size=(2, 2, 4, 5)).astype(F), r.uniform(-1.3, 1.3, (2, 3, 4, 2)).astype(F)
    for mode, padding, corners in itertools.product(("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (0, 1)):
        add.add(f"GridSample_{mode}_{padding}_{corners}", "GridSample", [x, grid],
                {"mode": mode, "padding_mode": padding, "align_corners": corners}, version=20, by="onnxruntime", atol=1e-5)
    theta = np.array([[[1, 0.2, 0.1], [-0.3, 0.8, -0.2]]], F)
    for corners in (0, 1):
        add.add(f"AffineGrid_{corners}", "AffineGrid", [theta, np.array([1, 2, 3, 4], np.int64)], {"align_corners": corners},
                version=20)
    rois, batch = np.array([[0, 0, 3, 3], [1, 1, 2.5, 3.5]], F), np.array([0, 1], np.int64)
    for mode, transformed, ratio in itertools.product(("avg", "max"), ("half_pixel", "output_half_pixel"), (0, 2)):
        add.add(f"RoiAlign_{mode}_{transformed}_{ratio}", "RoiAlign", [x, rois, batch],
                {"mode": mode, "coordinate_transformation_mode": transformed, "sampling_ratio": ratio, "output_height": 2,
                 "output_width": 2}, version=16, by="onnxruntime", atol=1e-5)
    boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1]]], F)
    scores = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5]]], F)
    for count, threshold in ((3, 0.0), (1, 0.0), (5, 0.7)):
        add.add(f"NonMaxSuppression_{count}_{threshold}", "NonMaxSuppression",
                [boxes, scores, np.array([count], np.int64), np.array([0.5], F), np.array([threshold], F)])
    columns = r.normal(size=(1, 8, 6)).astype(F)
    add.add("Col2Im", "Col2Im", [columns, np.array([3, 4], np.int64), np.array([2, 2], np.int64)], by="onnx")


def signals(add):
    for n in (7, 8, 10):
        x = add.rng(f"dft{n}").normal(size=(2, n, 1))
        for one_sided in (0, 1):
            y = (np.fft.rfft if one_sided else np.fft.fft)(x[..., 0], axis=1)
            add.add(f"DFT_{n}_{one_sided}", "DFT", [x.astype(F), None, np.array(1, np.int64)], {"onesided": one_sided},
                    version=20, expected=np.stack([y.real, y.imag], -1).astype(F), atol=1e-5)
        z = add.rng(f"idft{n}").normal(size=(2, n, 2))
        y = np.fft.ifft(z[..., 0] + 1j * z[..., 1], axis=1)
        add.add(f"DFT_{n}_inverse", "DFT", [z.astype(F), None, np.array(1, np.int64)], {"inverse": 1}, version=20,
                expected=np.stack([y.real, y.imag], -1).astype(F), atol=1e-5)
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        for periodic in (0, 1):
            add.add(f"{op}_{periodic}", op, [np.array(9, np.int64)], {"periodic": periodic}, by="onnxruntime", atol=1e-6)
    signal = add.rng("stft").normal(size=(1, 16, 1))
    window = np.hanning(8)
    frames = np.stack([np.fft.rfft(signal[0, i:i + 8, 0] * window) for i in range(0, 9, 4)])
    add.add("STFT", "STFT", [signal.astype(F), np.array(4, np.int64), window.astype(F), np.array(8, np.int64)],
            expected=np.stack([frames.real, frames.imag], -1)[None].astype(F), atol=1e-5)


def add_cases(add):
    pools(add)
    resizes(add)
    sampling(add)
    signals(add)
