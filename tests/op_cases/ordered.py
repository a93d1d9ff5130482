"""com.microsoft's QOrdered operators, LongformerAttention and DecoderAttention, which ONNX Runtime runs on GPUs alone:
NumPy, from the operators' texts and kernels."""
import numpy as np

from .contrib import MICROSOFT, gelu, softmax

F = np.float32
ROW, COL, COL32 = 1, 0, 2


def int8(x):
    return np.clip(np.rint(x), -128, 127).astype(np.int8)


def by_columns(x):
    """The shape stays, the elements lie column by column."""
    return np.ascontiguousarray(np.swapaxes(x, -1, -2)).reshape(x.shape)


def by_strips(x):
    *lead, rows, columns = x.shape
    return np.ascontiguousarray(np.moveaxis(x.reshape(*lead, rows, columns // 32, 32), -2, -3)).reshape(x.shape)


def product(a, a_scale, b, b_scale, y_scale, bias=None):
    y = (a.astype(np.int32) @ b.astype(np.int32)).astype(F) * (F(a_scale) * np.asarray(b_scale, F) / F(y_scale))
    return y if bias is None else y + bias / F(y_scale)


def elementwise(add):
    r = add.rng("ordered")
    lying = {ROW: lambda v: v, COL: by_columns, COL32: by_strips}
    x = (r.normal(size=(2, 3, 64)) * 3).astype(F)
    scale = np.array(0.03, F)
    q = int8(x / scale)
    for a, b in ((ROW, ROW), (ROW, COL), (COL, ROW), (ROW, COL32), (COL32, COL)):
        add.add(f"QuantizeWithOrder_{a}_{b}", "QuantizeWithOrder", [lying[a](x), scale],
                {"order_input": a, "order_output": b}, expected=lying[b](q), **MICROSOFT)
        for to, dtype in ((1, F), (10, np.float16)):
            add.add(f"DequantizeWithOrder_{a}_{b}_{to}", "DequantizeWithOrder", [lying[a](q), scale],
                    {"order_input": a, "order_output": b, "to": to}, expected=lying[b]((q * scale).astype(dtype)), **MICROSOFT)
    add.add("QuantizeWithOrder_vector", "QuantizeWithOrder", [x[0, 0], scale], {"order_input": ROW, "order_output": ROW},
            expected=q[0, 0], **MICROSOFT)
    result = np.array(0.05, F)
    add.add("QOrderedGelu", "QOrderedGelu", [q, scale, result], {"order_X": ROW, "order_Y": ROW},
            expected=int8(gelu(q * scale) / result), **MICROSOFT)
    for beta in (True, False):
        gamma, shift = r.normal(size=64).astype(F), r.normal(size=64).astype(F)
        wide = (q * scale).astype(np.float64)
        wide = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
        add.add(f"QOrderedLayerNormalization{'' if beta else '_no_bias'}", "QOrderedLayerNormalization",
                [q, scale, gamma, shift if beta else None, result], {"axis": -1},
                expected=int8((wide * gamma + (shift if beta else 0)) / result), **MICROSOFT)


def matmul(add):
    r = add.rng("QOrderedMatMul")
    random = lambda *shape: r.integers(-128, 127, shape, endpoint=True).astype(np.int8)
    a, b, c = random(2, 5, 48), random(48, 7), random(2, 5, 7)
    bias, scales = r.normal(size=7).astype(F) * 20, r.uniform(0.01, 0.03, 7).astype(F)
    one = [np.array(v, F) for v in (0.02, 0.015, 0.9, 0.7)]
    orders = {"order_A": ROW, "order_B": COL, "order_Y": ROW}
    plain = product(a, one[0], b, one[1], one[2])
    add.add("QOrderedMatMul", "QOrderedMatMul", [a, one[0], by_columns(b), one[1], one[2]], orders, expected=int8(plain),
            **MICROSOFT)
    add.add("QOrderedMatMul_constant", "QOrderedMatMul", [a, one[0], by_columns(b), one[1], one[2]], orders,
            expected=int8(plain), constants=[2], **MICROSOFT)
    add.add("QOrderedMatMul_bias", "QOrderedMatMul", [a, one[0], by_columns(b), scales, one[2], bias], orders,
            expected=int8(product(a, one[0], b, scales, one[2], bias)), **MICROSOFT)
    add.add("QOrderedMatMul_sum", "QOrderedMatMul", [a[0], one[0], by_columns(b), one[1], one[2], bias, c[0], one[3]], orders,
            expected=int8(product(a[0], one[0], b, one[1], one[2], bias) + c[0].astype(F) * (one[3] / one[2])), **MICROSOFT)


def split(x, heads):
    b, s, h = x.shape
    return x.reshape(b, s, heads, h // heads).transpose(0, 2, 1, 3)


def merged(x):
    b, n, s, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(b, s, n * d)


def attention(add):
    r = add.rng("QOrderedAttention")
    random = lambda *shape: r.integers(-128, 127, shape, endpoint=True).astype(np.int8)
    batch, tokens, width, heads, size = 2, 6, 16, 2, 8
    x, mask = random(batch, tokens, width), np.array([[1] * 6, [1, 1, 1, 1, 0, 0]], np.int32)
    weights = [random(width, heads * size) for _ in range(3)]
    biases = [r.normal(size=heads * size).astype(F) for _ in range(3)]
    scales = [np.array(v, F) for v in (0.01, 0.02, 0.03)]
    weight_scales = [np.array(0.004, F), r.uniform(0.002, 0.006, heads * size).astype(F), np.array(0.005, F)]
    given, scores, probabilities, result = (np.array(v, F) for v in (0.01, 0.05, 1 / 127, 0.02))
    q, k, v = (split(int8(product(x, given, w, ws, s, b)), heads)
               for w, ws, s, b in zip(weights, weight_scales, scales, biases))
    for masked in (False, True):
        units = int8(product(q, scales[0], k.swapaxes(-1, -2), scales[1], scores)) * scores / F(np.sqrt(size))
        if masked:
            units = np.where(mask[:, None, None] > 0, units, -np.inf)
        p = int8(softmax(units) / probabilities)
        y = int8(product(p, probabilities, v, scales[2], result))
        add.add(f"QOrderedAttention{'_mask' if masked else ''}", "QOrderedAttention",
                [x, given, *scales, *(by_columns(w) for w in weights), *weight_scales, *biases, scores, probabilities, result,
                 *([mask] if masked else [])],
                {"num_heads": heads, "order_input": ROW, "order_weight": COL, "order_output": ROW,
                 "qkv_hidden_sizes": [heads * size] * 3}, expected=merged(y), constants=[5, 6, 7], **MICROSOFT)


def local_and_global(near, far, mask, flags, window, heads):
    q, k, v = (split(p, heads) for p in np.split(near, 3, -1))
    place = np.arange(q.shape[2])
    seen = (np.abs(place[:, None] - place) <= window)[None] | (flags[:, None] > 0)
    added = np.where(seen, mask[:, None], -np.inf)[:, None]
    y = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + added) @ v
    q, k, v = (split(p, heads) for p in np.split(far, 3, -1))
    wide = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + mask[:, None, None]) @ v
    return np.where(flags[..., None] > 0, merged(wide), merged(y))


def longformer(add):
    r = add.rng("LongformerAttention")
    heads, window, width = 2, 2, 8
    x = r.normal(size=(2, 12, width))
    w, b, gw, gb = (r.normal(size=s) for s in ((width, 24), 24, (width, 24), 24))
    mask = np.zeros((2, 12))
    mask[1, 10:] = -10000
    for name, flags in (("none", []), ("first", [(0, 0), (1, 0)]), ("some", [(0, 0), (0, 5), (1, 7)])):
        given = np.zeros((2, 12), np.int32)
        for at in flags:
            given[at] = 1
        y = local_and_global(x @ w + b, x @ gw + gb, mask, given, window, heads)
        add.add("LongformerAttention_" + name, "LongformerAttention", [*(v.astype(F) for v in (x, w, b, mask, gw, gb)), given],
                {"num_heads": heads, "window": window}, expected=y.astype(F), atol=1e-4, **MICROSOFT)
    random = lambda *shape: r.integers(-128, 127, shape, endpoint=True).astype(np.int8)
    q, wq, gq = random(2, 12, width), random(width, 24), random(width, 24)
    bias, far_bias = r.normal(size=24).astype(F) * 10, r.normal(size=24).astype(F) * 10
    s = {k: np.array(v, F) for k, v in {"x": 0.02, "w": 0.01, "near": 0.02, "g": 0.012, "far": 0.025, "y": 0.02}.items()}
    near = int8(product(q, s["x"], wq, s["w"], s["near"]) + bias) * s["near"]
    far = int8(product(q, s["x"], gq, s["g"], s["far"]) + far_bias) * s["far"]
    y = local_and_global(near, far, mask, given, window, heads)
    add.add("QOrderedLongformerAttention", "QOrderedLongformerAttention",
            [q, s["x"], by_columns(wq), s["w"], bias, np.array(1, F), s["near"], mask.astype(np.float16), by_columns(gq),
             s["g"], far_bias, s["far"], given, s["y"]],
            {"num_heads": heads, "window": window, "order_input": ROW, "order_output": ROW, "order_weight": COL,
             "order_global_weight": COL}, expected=int8(y / s["y"]), **MICROSOFT)


def decoder(add):
    r = add.rng("DecoderAttention")
    heads, width, batch = 2, 8, 3
    query, key = r.normal(size=(2, batch, width)), r.normal(size=(5, batch, width))
    wq, wkv, bias = r.normal(size=(width, width)), r.normal(size=(width, 2 * width)), r.normal(size=3 * width)
    cache = [r.normal(size=(batch, heads, 4, width // heads)) for _ in range(2)]
    f = lambda v: np.asarray(v, F)
    for cross in (False, True):
        for cached in (False, True):
            for padded in (False, True):
                q = split((query @ wq + bias[:width]).swapaxes(0, 1), heads)
                both = ((key if cross else query) @ wkv + bias[width:]).swapaxes(0, 1)
                k, v = (split(p, heads) for p in np.split(both, 2, -1))
                if cached:
                    k, v = cache if cross else (np.concatenate([c, n], 2) for c, n in zip(cache, (k, v)))
                scores = q @ k.swapaxes(-1, -2) / np.sqrt(width // heads)
                padding = np.arange(k.shape[2]) >= np.array([k.shape[2], 1, k.shape[2] - 1])[:, None]
                if padded:
                    scores = np.where(padding[:, None, None], -np.inf, scores)
                name = "DecoderAttention" + "_cross" * cross + "_cache" * cached + "_padding" * padded
                truths = [np.array([t]) for t in (cross, cached, True, padded)]
                add.add(name, "DecoderAttention",
                        [f(query), f(key), f(wq), f(wkv), f(bias), padding if padded else None,
                         *(f(c) if cached else None for c in cache), *truths], {"num_heads": heads}, outputs=3,
                        constants=[8, 9, 10, 11],
                        expected=[f(merged(softmax(scores) @ v).swapaxes(0, 1)), f(k), f(v)], atol=1e-4, **MICROSOFT)


def add_cases(add):
    elementwise(add)
    matmul(add)
    attention(add)
    longformer(add)
    decoder(add)
