"""com.microsoft operators that ONNX Runtime runs on GPUs alone: NumPy, from the operators' texts and kernels."""
import math

import ml_dtypes
import numpy as np

MICROSOFT = {"domain": "com.microsoft"}


def erf(x):
    return np.vectorize(math.erf)(x)


def gelu(x):
    return x * 0.5 * (1 + erf(x / math.sqrt(2)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def group_norm(x, gamma, beta, groups, epsilon, silu):
    """Channels last."""
    n, h, w, c = x.shape
    g = x.astype(np.float64).reshape(n, h * w, groups, c // groups)
    mean, variance = g.mean((1, 3), keepdims=True), g.var((1, 3), keepdims=True)
    y = ((g - mean) / np.sqrt(variance + epsilon)).reshape(x.shape) * gamma + beta
    return (y * sigmoid(y) if silu else y).astype(x.dtype)


def diffusion(add):
    f = np.float32
    for channels_last in (0, 1):
        for activation in (0, 1):
            name = f"GroupNorm_{'last' if channels_last else 'first'}_{'silu' if activation else 'none'}"
            r = add.rng(name)
            x = r.normal(size=(2, 3, 4, 8)).astype(f)
            gamma, beta = r.normal(size=8).astype(f), r.normal(size=8).astype(f)
            y = group_norm(x, gamma, beta, 4, 1e-3, activation)
            turn = (lambda v: v) if channels_last else (lambda v: np.ascontiguousarray(v.transpose(0, 3, 1, 2)))
            attributes = {"activation": activation, "groups": 4, "epsilon": 1e-3}
            if not channels_last:
                attributes["channels_last"] = 0
            add.add(name, "GroupNorm", [turn(x), gamma, beta], attributes, expected=turn(y), atol=1e-5, **MICROSOFT)
            skip, bias = r.normal(size=(2, 8)).astype(f), r.normal(size=8).astype(f)
            total = x + skip[:, None, None] + bias
            add.add("Skip" + name, "SkipGroupNorm", [turn(x), gamma, beta, skip, bias], attributes, outputs=2,
                    expected=[turn(group_norm(total, gamma, beta, 4, 1e-3, activation)), turn(total)], atol=1e-5,
                    **MICROSOFT)
    r = add.rng("diffusion")
    x, bias, skip = r.normal(size=(2, 3, 6)).astype(f), r.normal(size=6).astype(f), r.normal(size=(2, 3, 6)).astype(f)
    add.add("BiasAdd", "BiasAdd", [x, bias, skip], expected=x + bias + skip, **MICROSOFT)
    left, right = np.split(x + bias, 2, -1)
    add.add("BiasSplitGelu", "BiasSplitGelu", [x, bias], expected=(left * gelu(right)).astype(f), **MICROSOFT)
    image, kernel = r.normal(size=(1, 5, 4, 3)).astype(f), r.normal(size=(2, 3, 2, 2)).astype(f)
    y = np.zeros((1, 4, 3, 2), f)
    for i in range(4):
        for j in range(3):
            y[0, i, j] = np.einsum("hwc,mchw->m", image[0, i:i + 2, j:j + 2], kernel)
    add.add("NhwcConv", "NhwcConv", [image, kernel, np.array([1, -2], f)], expected=y + np.array([1, -2], f), atol=1e-5,
            **MICROSOFT)
    z = r.normal(size=y.shape).astype(f)
    add.add("NhwcFusedConv_relu", "NhwcFusedConv", [image, kernel, None, z], {"activation": "Relu"},
            expected=np.maximum(y + z, 0), atol=1e-5, **MICROSOFT)


def signal(add):
    for n in (8, 10):
        for dtype in (np.float32, np.float64):
            name = f"Rfft_{n}_{np.dtype(dtype).name}"
            x = add.rng(name).normal(size=(2, 3, n)).astype(dtype)
            spectrum = np.fft.rfft(x)
            pairs = np.stack([spectrum.real, spectrum.imag], -1).astype(dtype)
            add.add(name, "Rfft", [x], {"normalized": 0, "onesided": 1, "signal_ndim": 1}, expected=pairs, atol=1e-5,
                    **MICROSOFT)
            add.add("I" + name.lower(), "Irfft", [pairs], {"normalized": 0, "onesided": 1, "signal_ndim": 1}, expected=x,
                    atol=1e-5, **MICROSOFT)
    r = add.rng("complex")
    a, b = r.normal(size=(3, 4, 2)).astype(np.float32), r.normal(size=(4, 2)).astype(np.float32)
    for name, other in (("ComplexMul", b), ("ComplexMulConj", b * [1, -1])):
        product = (a[..., 0] + 1j * a[..., 1]) * (other[..., 0] + 1j * other[..., 1])
        add.add(name, name, [a, b], expected=np.stack([product.real, product.imag], -1).astype(np.float32), **MICROSOFT)


def bucket_of(distance, buckets, farthest, both_ways):
    """T5's: distance = key - query."""
    base = 0
    if both_ways:
        buckets //= 2
        base = buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    near = buckets // 2
    if distance < near:
        return base + distance
    far = near + int(math.log(distance / near) / math.log(farthest / near) * (buckets - near))
    return base + min(far, buckets - 1)


def biases(add):
    for both_ways in (0, 1):
        for length in (5, 40):
            name = f"RelativePositionBias_{'both' if both_ways else 'back'}_{length}"
            table = add.rng(name).normal(size=(8, 3)).astype(np.float32)
            y = np.zeros((1, 3, length, length), np.float32)
            for i in range(length):
                for j in range(length):
                    y[0, :, i, j] = table[bucket_of(j - i, 8, 20, both_ways)]
            # The shape says [buckets, heads], the elements lie head by head.
            stored = np.ascontiguousarray(table.T).reshape(8, 3)
            size = np.array([length], np.int64)
            add.add(name, "RelativePositionBias", [stored, size, size],
                    {"is_bidirectional": both_ways, "max_distance": 20}, expected=y, **MICROSOFT)
    r = add.rng("gated")
    f = np.float32
    b, s, heads, size, d = 2, 3, 2, 4, 6
    query, bias = r.normal(size=(b, s, heads * size)).astype(f), r.normal(size=heads * size).astype(f)
    rel, weight = r.normal(size=(1, heads, s, s)).astype(f), r.normal(size=(size, d)).astype(f)
    wb, eco = r.normal(size=d).astype(f), r.normal(size=(1, heads, 1, 1)).astype(f)
    q = (query + bias).reshape(b, s, heads, size).transpose(0, 2, 1, 3)
    gates = sigmoid((q @ weight + wb).reshape(b, heads, s, 2, d // 2).sum(-1))
    y = (gates[..., :1] * (gates[..., 1:] * eco - 1) + 2) * rel
    add.add("GatedRelativePositionBias", "GatedRelativePositionBias", [query, bias, rel, weight, wb, eco],
            {"num_heads": heads}, expected=y.astype(f), **MICROSOFT)
    x, inner, outer = r.normal(size=(4, 2, 3)).astype(f), r.normal(size=(1, 2, 3)).astype(f), r.normal(size=(2, 2, 3))
    add.add("BiasSoftmax_inner", "BiasSoftmax", [x, inner], {"axis": 2, "is_inner_broadcast": 1},
            expected=softmax(x + inner), **MICROSOFT)
    outer = outer.astype(f)
    add.add("BiasSoftmax_outer", "BiasSoftmax", [x, outer], {"axis": 2, "is_inner_broadcast": 0},
            expected=softmax(x + np.concatenate([outer, outer])), **MICROSOFT)


def paged(add):
    """Sequences of 3 and 1 new tokens after 2 and 5 in the cache, pages of 4."""
    for name, extra in (("plain", {}), ("window", {"local_window_size": 3}), ("softcap", {"softcap": 2.0}),
                        ("rotary", {"do_rotary": 1}), ("two_ways", {"is_causal": 0})):
        r = add.rng("paged" + name)
        f = np.float32
        heads, kv, d, page, pages = 4, 2, 4, 4, 5
        news, past = [3, 1], [2, 5]
        table = np.array([[3, 0], [1, 4]], np.int32)
        q, k, v = (r.normal(size=(4, n * d)).astype(f) for n in (heads, kv, kv))
        key_cache, value_cache = (r.normal(size=(pages, page, kv, d)).astype(f) for _ in range(2))
        cos, sin = np.cos(np.arange(16)[:, None] / [1, 10]).astype(f), np.sin(np.arange(16)[:, None] / [1, 10]).astype(f)
        new_keys, new_values, y = key_cache.copy(), value_cache.copy(), np.zeros((4, heads, d), f)

        def turned(x, position):
            if "do_rotary" not in extra:
                return x
            a, b, c, s = x[:, :2], x[:, 2:], cos[position], sin[position]
            return np.concatenate([a * c - b * s, b * c + a * s], 1)

        token = 0
        for sequence, count in enumerate(news):
            first = token
            for i in range(count):
                position = past[sequence] + i
                block = table[sequence, position // page]
                new_keys[block, position % page] = turned(k[first + i].reshape(kv, d), position)
                new_values[block, position % page] = v[first + i].reshape(kv, d)
            rows = [(table[sequence, p // page], p % page) for p in range(past[sequence] + count)]
            keys, values = np.stack([new_keys[x] for x in rows]), np.stack([new_values[x] for x in rows])
            for i in range(count):
                position = past[sequence] + i
                query = turned(q[token].reshape(heads, d), position)
                for h in range(heads):
                    scores = keys[:, h // (heads // kv)] @ query[h] / math.sqrt(d)
                    if "softcap" in extra:
                        scores = 2 * np.tanh(scores / 2)
                    at = np.arange(len(rows))
                    hidden = at > position if "is_causal" not in extra else at < 0
                    if "local_window_size" in extra:
                        hidden |= at <= position - 3
                    scores[hidden] = -np.inf
                    y[token, h] = softmax(scores) @ values[:, h // (heads // kv)]
                token += 1
        starts = np.array([0, 3, 4], np.int32)
        inputs = [q, k, v, key_cache, value_cache, starts, np.array(past, np.int32), table]
        if "do_rotary" in extra:
            inputs += [cos, sin]
        add.add("PagedAttention_" + name, "PagedAttention", inputs, {"num_heads": heads, "kv_num_heads": kv, **extra},
                outputs=3, expected=[y.reshape(4, -1), new_keys, new_values], atol=1e-5, **MICROSOFT)


def coded(x, codes, scale):
    """Codes of a cache and what they stand for: the nearest, symmetric."""
    y = x.astype(np.float32) / scale
    if codes == "int8":
        q = np.clip(np.rint(y), -128, 127).astype(np.int8)
        return q, q.astype(np.float32) * scale
    if codes == "float8e4m3fn":
        q = np.clip(y, -448, 448).astype(ml_dtypes.float8_e4m3fn)
        return q, q.astype(np.float32) * scale
    if codes == "int4":
        q = np.clip(np.rint(y), -8, 7)
        nibbles = q.astype(np.int8).view(np.uint8) & 15
    else:
        q = np.clip(y, -6, 6).astype(ml_dtypes.float4_e2m1fn)
        nibbles = q.view(np.uint8) & 15
    if x.shape[-1] % 2:
        nibbles = np.concatenate([nibbles, np.zeros_like(nibbles[..., :1])], -1)
    return nibbles[..., ::2] | nibbles[..., 1::2] << 4, q.astype(np.float32) * scale


def paged_codes(add):
    """Caches of codes, and latent ones whose values are the first channels of the keys; two sequences as in paged()."""
    f = np.float32
    for name, codes, kind, latent, d in [
        ("int8_tensor", "int8", "PER_TENSOR", False, 4), ("int8_channel", "int8", "PER_CHANNEL", False, 4),
        ("f8_tensor", "float8e4m3fn", "PER_TENSOR", False, 4), ("int4_channel", "int4", "PER_CHANNEL", False, 4),
        ("int4_odd", "int4", "PER_TENSOR", False, 5), ("f4_channel", "float4e2m1", "PER_CHANNEL", False, 4),
        ("latent", "", "NONE", True, 16), ("latent_narrow", "", "NONE", True, 16), ("latent_int8", "int8", "PER_TENSOR", True, 16),
    ]:
        r = add.rng("paged" + name)
        heads, kv, page, pages = 4, 1 if latent else 2, 4, 5
        news, past = [3, 1], [2, 5]
        table = np.array([[3, 0], [1, 4]], np.int32)
        width = 8 if name == "latent_narrow" else d
        q, k, v = (r.normal(size=(4, n, d)).astype(f) for n in (heads, kv, kv))
        before = [r.normal(size=(pages, page, kv, d)).astype(f) for _ in range(2)]
        scales = [np.array([0.06 if codes == "int8" else 0.4], f) if kind == "PER_TENSOR" else
                  r.uniform(0.03 if codes == "int8" else 0.3, 0.5, size=(kv, 1, d)).astype(f) for _ in range(2)]
        attributes = {"num_heads": heads, "kv_num_heads": kv}

        def encode(x, i):
            if not codes:
                return x, x
            scale = scales[i] if kind == "PER_TENSOR" else scales[i].reshape(kv, d)
            return coded(x, codes, scale)

        caches = [encode(before[i], i) for i in range(2)]
        after = [(c.copy(), x.copy()) for c, x in caches]
        cos, sin = np.cos(np.arange(16)[:, None] / [1, 10]).astype(f), np.sin(np.arange(16)[:, None] / [1, 10]).astype(f)

        def turned(x, position):
            if not latent:
                return x
            x, c, s = x.copy(), cos[position], sin[position]
            a, b = x[:, 8:10].copy(), x[:, 10:12].copy()
            x[:, 8:10], x[:, 10:12] = a * c - b * s, b * c + a * s
            return x

        y, token = np.zeros((4, heads, width), f), 0
        for sequence, count in enumerate(news):
            for i in range(count):
                position = past[sequence] + i
                at = table[sequence, position // page], position % page
                for side, rows in enumerate([turned(k[token + i], position), v[token + i]]):
                    code, value = encode(rows, side)
                    after[side][0][at], after[side][1][at] = code, value
            places = [(table[sequence, p // page], p % page) for p in range(past[sequence] + count)]
            keys, values = (np.stack([after[side][1][at] for at in places]) for side in range(2))
            if latent:
                values = keys[..., :width]
            for i in range(count):
                query = turned(q[token], past[sequence] + i)
                for h in range(heads):
                    scores = keys[:, h * kv // heads] @ query[h] * (0.3 if latent else 1 / math.sqrt(d))
                    scores[past[sequence] + i + 1:] = -np.inf
                    y[token, h] = softmax(scores) @ values[:, h * kv // heads]
                token += 1
        flat = [x.reshape(4, -1) for x in (q, k, v)]
        starts = np.array([0, 3, 4], np.int32)
        inputs = [flat[0], flat[1], None if latent else flat[2], caches[0][0], None if latent else caches[1][0], starts,
                  np.array(past, np.int32), table]
        inputs += [cos, sin] if latent else [None, None]
        if codes:
            inputs += [None] * 4 + [scales[0]] + ([] if latent else [scales[1]])
            attributes |= {"k_quant_type": kind} | ({} if latent else {"v_quant_type": kind})
            if codes in ("int4", "float4e2m1"):
                attributes |= {"k_cache_dtype": codes, "v_cache_dtype": codes}
        if latent:
            attributes |= {"kv_cache_layout": "LATENT", "do_rotary": 1, "rotary_offset": 8, "scale": 0.3}
        if width != d:
            attributes["v_head_size"] = width
        expected = [y.reshape(4, -1), after[0][0]] + ([] if latent else [after[1][0]])
        add.add("PagedAttention_" + name, "PagedAttention", inputs, attributes, outputs=len(expected), expected=expected,
                atol=1e-5, **MICROSOFT)


def products(add):
    f, r = np.float32, add.rng("contrib products")
    a, w, c = r.normal(size=(3, 8)).astype(f), r.normal(size=(8, 5)).astype(f), r.normal(size=(3, 5)).astype(f)
    add.add("GemmFloat8_float", "GemmFloat8", [a, w, c], {"alpha": 0.5, "beta": 2.0, "activation": "RELU"},
            expected=np.maximum(0.5 * (a @ w) + 2 * c, 0).astype(f), atol=1e-5, **MICROSOFT)
    for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        x, y = a.astype(dtype), np.ascontiguousarray(w.T).astype(dtype)
        scales = [np.array([s], f) for s in (0.5, 2.0, 0.25)]
        exact = (x.astype(f) * f(0.5)) @ (y.astype(f).T * f(2.0))
        add.add(f"GemmFloat8_{np.dtype(dtype).name}", "GemmFloat8", [x, y, None, *scales], {"transB": 1, "dtype": 10},
                expected=(exact * f(0.25)).astype(np.float16), **MICROSOFT)
    bias = r.normal(size=5).astype(f)
    z = a @ w + bias
    add.add("GemmFastGelu", "GemmFastGelu", [a, w, bias], atol=1e-5, **MICROSOFT,
            expected=(0.5 * z * (1 + np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))).astype(f))
    for dtype in (np.uint8, np.int8):
        info = np.iinfo(dtype)
        x, y = (r.integers(info.min, info.max, size, endpoint=True).astype(dtype) for size in ((2, 3), (3,)))
        zeros = np.array(3, dtype), np.array(7, dtype)
        label = np.dtype(dtype).name
        add.add(f"MulInteger_{label}", "MulInteger", [x, zeros[0], y, zeros[1]],
                expected=(x.astype(np.int32) - 3) * (y.astype(np.int32) - 7), **MICROSOFT)
        wide = np.int32 if info.min else np.uint32
        add.add(f"ReduceSumInteger_{label}", "ReduceSumInteger", [x], {"axes": [1], "keepdims": 0},
                expected=x.astype(wide).sum(1).astype(wide), **MICROSOFT)
        add.add(f"ReduceSumInteger_{label}_keep", "ReduceSumInteger", [x], {"axes": [0, -1], "keepdims": 1},
                expected=x.astype(wide).sum(keepdims=True).astype(wide), **MICROSOFT)
    nan, inf = np.array([1, np.nan], f), np.array([[np.inf]], f)
    for name, inputs, attributes, answer in [("yes", [a, bias], {}, True), ("nan", [a, nan], {}, False),
                                             ("nan_for_inf", [nan], {"isinf_only": 1}, True), ("inf", [a, inf], {}, False),
                                             ("inf_for_nan", [inf], {"isnan_only": 1}, True)]:
        add.add("IsAllFinite_" + name, "IsAllFinite", inputs, attributes, expected=np.array(answer), **MICROSOFT)
    add.add("TorchEmbedding", "TorchEmbedding", [w, np.array([[7, 0], [1, 1]])], expected=w[[[7, 0], [1, 1]]], **MICROSOFT)
    emb = r.normal(size=(2, 3, 4)).astype(f)
    heads = [r.normal(size=(2, 5, 3, 4)).astype(np.float16) for _ in range(4)]
    cos, sin = (g(emb).astype(np.float16)[:, None] for g in (np.cos, np.sin))
    add.add("GemmaRotaryEmbedding", "GemmaRotaryEmbedding", [emb, *heads], outputs=2,
            expected=[heads[0] * cos + heads[1] * sin, heads[2] * cos + heads[3] * sin], **MICROSOFT)
    gate, up = 3 * r.normal(size=(2, 4)).astype(f), 3 * r.normal(size=(2, 4)).astype(f)
    for name, inputs, limit, alpha, beta in [("plain", [gate, up], 0, 1.0, 0), ("clamped", [gate, up], 2.0, 1.702, 1.0),
                                             ("halves", [np.concatenate([gate, up], -1)], 0, 1.0, 0)]:
        g, u = (np.minimum(gate, limit), np.clip(up, -limit, limit)) if limit else (gate, up)
        add.add("SwiGLU_" + name, "SwiGLU", inputs, {"limit": float(limit), "activation_alpha": alpha,
                                                     "activation_beta": float(beta)},
                expected=(g * sigmoid(alpha * g) * (u + beta)).astype(f), **MICROSOFT)


def caches_with_room(add):
    for past, new, extra in [(2, 3, {}), (0, 3, {"unidirectional": 1}), (3, 1, {"unidirectional": 1})]:
        name = f"MultiHeadAttention_room_{past}_{new}"
        r = add.rng(name)
        q, k, v = (r.normal(size=(1, new, 8)).astype(np.float32) for _ in range(3))
        caches = [r.normal(size=(1, 2, 6, 4)).astype(np.float32) for _ in range(2)]
        add.add(name, "MultiHeadAttention", [q, k, v, None, None, None, *caches, np.array([past], np.int32)],
                {"num_heads": 2, **extra}, outputs=3, by="onnxruntime", **MICROSOFT)


def experts(add):
    """What ONNX Runtime's CPU kernels refuse of MoE, GatedAdd and DecoderMaskedSelfAttention."""
    f, r = np.float32, add.rng("experts")
    tokens, n, hidden, inter = 3, 2, 4, 5
    x, router = r.normal(size=(tokens, hidden)).astype(f), r.normal(size=(tokens, n)).astype(f)
    second = r.normal(size=(n, hidden, inter)).astype(f)
    for kind, attributes in [("relu2", {}), ("geglu", {"swiglu_fusion": 1}), ("geglu", {"swiglu_fusion": 2}),
                             ("swiglu", {"swiglu_fusion": 2, "swiglu_limit": 0.5, "swiglu_limit_after_activation": 1})]:
        first = r.normal(size=(n, inter * (1 if kind == "relu2" else 2), hidden)).astype(f)
        weights = softmax(router)
        y = np.zeros_like(x)
        for t in range(tokens):
            for e in range(n):
                h = first[e] @ x[t]
                if kind == "relu2":
                    h = np.maximum(h, 0) ** 2
                else:
                    g, u = (h[::2], h[1::2]) if attributes["swiglu_fusion"] == 1 else (h[:inter], h[inter:])
                    if kind == "swiglu":
                        h = np.minimum(g * sigmoid(g), 0.5) * np.clip(u, -0.5, 0.5)
                    else:
                        h = 0.5 * g * (1 + np.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g**3))) * u
                y[t] += weights[t, e] * (second[e] @ h)
        label = f"{kind}_{attributes.get('swiglu_fusion', 0)}"
        add.add("MoE_" + label, "MoE", [x, router, first, None, second], {"k": 2, "activation_type": kind, **attributes},
                expected=y.astype(f), atol=1e-5, **MICROSOFT)
    a, b, gate = (r.normal(size=(2, 3, k)).astype(f) for k in (4, 4, 6))
    weight = r.normal(size=(6, 1)).astype(f)
    add.add("GatedAdd_projected", "GatedAdd", [a, b, gate, weight], expected=(a + b * sigmoid(gate @ weight)).astype(f), atol=1e-5,
            **MICROSOFT)
    x, w, bias = r.normal(size=(2, 1, 8)).astype(f), r.normal(size=(8, 24)).astype(f), r.normal(size=24).astype(f)
    past = r.normal(size=(2, 2, 2, 3, 4)).astype(f)
    q, k, v = ((x @ w + bias)[..., i * 8:i * 8 + 8].reshape(2, 1, 2, 4).transpose(0, 2, 1, 3) for i in range(3))
    k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
    mask = np.array([[0, 1, 1, 1], [1, 1, 1, 1]], np.int32)
    scores = q @ k.transpose(0, 1, 3, 2) / 2 + np.where(mask, 0, -10000)[:, None, None]
    y = (softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(2, 1, 8)
    add.add("DecoderMaskedSelfAttention", "DecoderMaskedSelfAttention", [x, w, bias, mask, past], {"num_heads": 2}, outputs=2,
            expected=[y.astype(f), np.stack([k, v])], atol=1e-5, **MICROSOFT)


def add_cases(add):
    diffusion(add)
    experts(add)
    caches_with_room(add)
    products(add)
    paged_codes(add)
    signal(add)
    biases(add)
    paged(add)
