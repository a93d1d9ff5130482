"""Matrix products, Gemm, Einsum, convolutions."""
import itertools

import numpy as np

F = np.float32


def products(add):
    shapes = {"matrix": ((3, 4), (4, 5)), "vector_left": ((4,), (4, 5)), "vector_right": ((3, 4), (4,)),
              "dot": ((4,), (4,)), "batch": ((2, 3, 4), (2, 4, 5)), "shared": ((2, 3, 4), (4, 5)),
              "both": ((2, 1, 3, 4), (3, 4, 5)), "empty_sum": ((2, 0), (0, 3)), "empty": ((0, 4), (4, 5)),
              "long": ((2, 300), (300, 3))}
    for label, (a, b) in shapes.items():
        for dtype in (np.float32, np.float64, np.int32, np.int64):
            r = add.rng(f"MatMul{label}")
            x, y = (r.integers(-4, 5, s).astype(dtype) for s in (a, b))
            add.add(f"MatMul_{label}_{np.dtype(dtype).name}", "MatMul", [x, y], expected=x @ y)
    for trans_a, trans_b in itertools.product((0, 1), (0, 1)):
        for c in (None, (), (5,), (1, 5), (3, 1), (3, 5)):
            name = f"Gemm_{trans_a}{trans_b}_{'none' if c is None else 'x'.join(map(str, c))}"
            r = add.rng(name)
            a, b = r.normal(size=(4, 3) if trans_a else (3, 4)), r.normal(size=(5, 4) if trans_b else (4, 5))
            inputs = [a.astype(F), b.astype(F)] + ([] if c is None else [r.normal(size=c).astype(F)])
            y = 0.5 * (inputs[0].T if trans_a else inputs[0]) @ (inputs[1].T if trans_b else inputs[1])
            if c is not None:
                y = y + 2 * inputs[2]
            add.add(name, "Gemm", inputs, {"alpha": 0.5, "beta": 2.0, "transA": trans_a, "transB": trans_b},
                    expected=y.astype(F), atol=1e-5)
    for equation, shapes in {"ij,jk->ik": ((2, 3), (3, 4)), "bij,bjk->bik": ((2, 2, 3), (2, 3, 4)), "ii->i": ((3, 3),),
                             "ij->ji": ((2, 3),), "ij->": ((2, 3),), "i,j->ij": ((2,), (3,)),
                             "...ij,...jk->...ik": ((2, 3, 4), (4, 5)), "bhqd,bhkd->bhqk": ((1, 2, 3, 4), (1, 2, 5, 4)),
                             "ij,ij->i": ((2, 3), (2, 3)), "abc,cd,de->abe": ((2, 2, 3), (3, 2), (2, 4))}.items():
        r = add.rng(equation)
        x = [r.normal(size=s).astype(F) for s in shapes]
        label = equation.replace(",", "_").replace("->", "_to_").replace("...", "E")
        add.add("Einsum_" + label, "Einsum", x, {"equation": equation},
                expected=np.asarray(np.einsum(equation, *[v.astype(np.float64) for v in x])).astype(F), atol=1e-5)
    for shape in ((2, 2), (3, 4, 4)):
        x = add.rng("det").normal(size=shape).astype(F)
        add.add(f"Det_{len(shape)}", "Det", [x], expected=np.asarray(np.linalg.det(x.astype(np.float64))).astype(F), atol=1e-5)


def convolutions(add):
    for rank in (1, 2, 3):
        space = (7, 6, 5)[:rank]
        for group in (1, 2, 4):
            for label, attributes in {"plain": {}, "pads": {"pads": [1] * rank + [0] * rank}, "strides": {"strides": [2] * rank},
                                      "dilated": {"dilations": [2] * rank}, "same": {"auto_pad": "SAME_UPPER"}}.items():
                r = add.rng(f"Conv{rank}{group}{label}")
                x = r.normal(size=(2, 4, *space)).astype(F)
                w = r.normal(size=(4, 4 // group, *(2,) * rank)).astype(F)
                b = r.normal(size=4).astype(F)
                add.add(f"Conv{rank}d_group{group}_{label}", "Conv", [x, w, b], {"group": group, **attributes}, atol=1e-5)
            for label, attributes in {"plain": {}, "strides": {"strides": [2] * rank},
                                      "output_padding": {"strides": [2] * rank, "output_padding": [1] * rank},
                                      "pads": {"pads": [1] * rank + [0] * rank},
                                      "dilated": {"dilations": [2] * rank}}.items():
                if rank == 3 and label != "plain":
                    continue
                r = add.rng(f"ConvTranspose{rank}{group}{label}")
                x = r.normal(size=(1, 4, *space)).astype(F)
                w = r.normal(size=(4, 8 // group, *(3,) * rank)).astype(F)
                add.add(f"ConvTranspose{rank}d_group{group}_{label}", "ConvTranspose", [x, w], {"group": group, **attributes},
                        by="onnxruntime", atol=1e-5)

    # SAME_*: input * stride elements, as the attribute says. Where the kernel is shorter than the stride, the rest are zeros
    # at the end (pads are never negative); ONNX Runtime stops at the kernel's end, onnx.reference takes negative pads.
    x = np.array([[[1, 2, 3]]], F)
    for mode in ("SAME_UPPER", "SAME_LOWER"):
        for kernel, stride in [(3, 1), (2, 1), (3, 2), (2, 2), (4, 2), (5, 3)]:
            w = (10.0 ** np.arange(kernel)).astype(F).reshape(1, 1, -1)
            add.add(f"ConvTranspose_{mode}_{kernel}_{stride}", "ConvTranspose", [x, w],
                    {"auto_pad": mode, "strides": [stride]})
        for kernel, stride in [(1, 2), (2, 3), (1, 3)]:
            w = (10.0 ** np.arange(kernel)).astype(F).reshape(1, 1, -1)
            y = np.zeros((1, 1, 3 * stride), F)
            for i in range(3):
                y[0, 0, i * stride:i * stride + kernel] = (i + 1) * w[0, 0]
            add.add(f"ConvTranspose_{mode}_{kernel}_{stride}", "ConvTranspose", [x, w],
                    {"auto_pad": mode, "strides": [stride]}, expected=y)


def add_cases(add):
    products(add)
    convolutions(add)
