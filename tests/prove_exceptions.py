#!/usr/bin/env python3
"""Shows, from the stored files alone, that each node case in tests/exceptions.txt expects what the specification does not say.

    prove_exceptions.py CASES

CASES is the folder of ONNX's node cases. For each listed case the answer is computed from the operator's text in another way
than ours, and must lie outside of the case's own tolerance (rtol 1e-3, atol 1e-7), while what the case's author computed
instead reproduces the stored values. A case that proves right, and a listed one without a proof here, fails.
"""
import pathlib
import re
import sys

import numpy as np
import onnx
from onnx import numpy_helper

HERE = pathlib.Path(__file__).resolve().parent


def stored(folder):
    def read(kind):
        found = []
        for path in sorted((folder / "test_data_set_0").glob(f"{kind}_*.pb"), key=lambda p: int(p.stem.split("_")[1])):
            tensor = onnx.TensorProto()
            tensor.ParseFromString(path.read_bytes())
            found.append(numpy_helper.to_array(tensor))
        return found
    return onnx.load(folder / "model.onnx"), read("input"), read("output")


def passes(answer, expected):
    return answer.shape == expected.shape and np.allclose(answer, expected, rtol=1e-3, atol=1e-7)


def weights(places, length, cubic):
    """Rows of weights over the elements, those beyond the ends counting for the ends."""
    rows = np.zeros((len(places), length))
    for row, place in zip(rows, places):
        low, t = int(np.floor(place)), place - np.floor(place)
        if cubic:
            near = lambda d: 1.25 * d**3 - 2.25 * d**2 + 1
            far = lambda d: -0.75 * (d**3 - 5 * d**2 + 8 * d - 4)
            taps = [(low - 1, far(1 + t)), (low, near(t)), (low + 1, near(1 - t)), (low + 2, far(2 - t))]
        else:
            taps = [(low, 1 - t), (low + 1, t)]
        for at, weight in taps:
            row[min(max(at, 0), length - 1)] += weight
    return rows


def corners(folder):
    """align_corners: x_original = x_resized * (length_original - 1) / (length_resized - 1), and length_resized is `the length of
    the resized tensor`, an integer; the case takes length_original * scale. (output_width, `which can be a fractional number`,
    stands in another mode's formula.)"""
    _, inputs, (expected,) = stored(folder)
    x, scales, cubic = inputs[0], inputs[-1], "cubic" in folder.name

    def resized(length_resized):
        matrices = []
        for axis in (2, 3):
            long, short = x.shape[axis], expected.shape[axis]
            last = length_resized(long, short, float(scales[axis])) - 1
            places = [i * (long - 1) / last if last else 0.0 for i in range(short)]
            matrices.append(weights(places, long, cubic))
        return np.einsum("ih,nchw,jw->ncij", matrices[0], x, matrices[1])

    by_text = resized(lambda long, short, scale: short)
    assert not passes(by_text, expected), "the text's answer passes"
    assert passes(resized(lambda long, short, scale: long * scale), expected), "the case holds something else"
    return f"lengths {expected.shape[2:]} of {x.shape[2:]} by the text, the case has them times {scales[2:]}, unrounded"


def inverse_transform(folder):
    """x[n] = 1/N sum_k y[k] e^(2 pi j k n / N) of the stored y, summed in extended precision."""
    _, inputs, (expected,) = stored(folder)
    y = inputs[0][..., 0].astype(np.longdouble) + 1j * inputs[0][..., 1].astype(np.longdouble)
    axis, n = 1, y.shape[1]
    k = np.arange(n)
    angle = (2 * np.pi * (np.outer(k, k) % n).astype(np.longdouble) / n)
    exact = np.moveaxis(np.tensordot(np.cos(angle) + 1j * np.sin(angle), y, ([1], [axis])), 0, axis) / n
    answer = np.stack([exact.real, exact.imag], -1).astype(np.float64)
    assert not passes(answer, expected), "the definition's answer passes"
    wrong = np.abs(answer - expected) > 1e-7 + 1e-3 * np.abs(expected)
    assert np.abs(answer[wrong]).max() < 1e-7 < np.abs(expected[wrong]).min(), "not the rounding of zeros"
    in_float32 = np.fft.ifft((inputs[0][..., 0] + 1j * inputs[0][..., 1]).astype(np.complex64), axis=axis)
    assert np.array_equal(np.stack([in_float32.real, in_float32.imag], -1), expected), "the case holds something else"
    return f"{wrong.sum()} elements are {np.abs(answer[wrong]).max():.0e} by the definition, the case holds numpy.fft's rounding"


def bernoulli(folder):
    """`may not produce the same values in different implementations (even if a seed is specified)`: the case holds draws."""
    _, (x,), (expected,) = stored(folder)
    assert set(np.unique(expected)) <= {0, 1} and (expected != np.rint(x)).any(), "decided by the probabilities"
    return "the case holds one draw of many that the text allows"


def dropout(folder):
    """The mask is random: any, with output = data * mask / (1 - ratio)."""
    _, inputs, outputs = stored(folder)
    ratio = float(inputs[1]) if len(inputs) > 1 and inputs[1].size else 0.5
    kept = outputs[0] != 0
    assert passes(np.where(kept, inputs[0] / (1 - ratio), 0), outputs[0].astype(np.float64)), "not a draw"
    assert kept.any() and not kept.all(), "nothing was drawn"
    return "the case holds one mask of many that the text allows"


PROOFS = [(r"test_resize_downsample_scales_(cubic|linear)_align_corners", corners), (r"test_dft_inverse.*", inverse_transform),
          (r"test_bernoulli.*", bernoulli), (r"test_training_dropout.*", dropout)]


def main():
    cases, passed, failed = pathlib.Path(sys.argv[1]), 0, 0
    rows = [line.split()[:2] for line in (HERE / "exceptions.txt").read_text().splitlines() if line.startswith("node/")]
    # Of one backend alone is what that backend does, not what the case holds.
    everywhere = {name for name, backend in rows if backend in ("*", "reference")}
    for name in sorted(everywhere):
        case = name.split("/")[1]
        proof = next((p for pattern, p in PROOFS if re.fullmatch(pattern, case)), None)
        try:
            assert proof, "nothing here proves it"
            print(f"{case}: {proof(cases / case)}")
            passed += 1
        except AssertionError as error:
            print(f"FAIL {case}: {error}")
            failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
