"""com.microsoft's packed attention: sequences without their padding. NumPy, a sequence at a time."""
import math

import numpy as np

from .contrib import MICROSOFT, sigmoid, softmax

F = np.float32
LENGTHS = [1, 2, 4]
LONGEST = 5  # one place that no sequence fills


def offsets():
    real = [b * LONGEST + i for b, n in enumerate(LENGTHS) for i in range(n)]
    rest = [i for i in range(len(LENGTHS) * LONGEST) if i not in real]
    return np.array(real), np.array(real + rest, np.int32).reshape(len(LENGTHS), LONGEST)


def attention(q, k, v, heads, scale, bias=None):
    """q, k, v [tokens, heads * d]; bias [b or 1, heads or 1, s, s]."""
    y, start = [], 0
    for b, n in enumerate(LENGTHS):
        rows = slice(start, start + n)
        of = lambda x: x[rows].reshape(n, heads, -1).transpose(1, 0, 2)
        scores = of(q) @ of(k).transpose(0, 2, 1) * scale
        if bias is not None:
            wide = np.broadcast_to(bias, (len(LENGTHS), heads, LONGEST, LONGEST))
            scores = scores + wide[b, :, :n, :n]
        y.append((softmax(scores) @ of(v)).transpose(1, 0, 2).reshape(n, -1))
        start += n
    return np.concatenate(y)


def padding(add):
    r = add.rng("padding")
    real, offset = offsets()
    counts = np.array(LENGTHS, np.int32)
    sums = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    x = r.normal(size=(len(LENGTHS), LONGEST, 6)).astype(F)
    rows = x.reshape(-1, 6)[real]
    add.add("RemovePadding", "RemovePadding", [x, counts], outputs=4,
            expected=[rows, offset, sums, np.array([max(LENGTHS)], np.int32)], **MICROSOFT)
    add.add("RemovePadding_empty_sequence", "RemovePadding", [x[:2], np.array([0, 5], np.int32)], outputs=4,
            expected=[x[1], np.array([5, 6, 7, 8, 9, 0, 1, 2, 3, 4], np.int32).reshape(2, 5), np.array([0, 0, 5], np.int32),
                      np.array([5], np.int32)], **MICROSOFT)
    y = np.zeros_like(x).reshape(-1, 6)
    y[real] = rows
    add.add("RestorePadding", "RestorePadding", [rows, offset], expected=y.reshape(x.shape), **MICROSOFT)
    return real, offset, sums


def add_cases(add):
    real, offset, sums = padding(add)
    tokens, heads, hidden = len(real), 2, 8
    for name, sizes, scale, bias in [("plain", None, 0, None), ("sizes_scale", [8, 8, 4], 0.3, None),
                                     ("bias", None, 0, (1, heads)), ("bias_batch", None, 0, (len(LENGTHS), 1))]:
        r = add.rng("PackedAttention" + name)
        q_size, _, v_size = sizes or [8, 8, 8]
        x, w = r.normal(size=(tokens, hidden)).astype(F), r.normal(size=(hidden, 2 * q_size + v_size)).astype(F)
        b = r.normal(size=2 * q_size + v_size).astype(F)
        extra = r.normal(size=(*bias, LONGEST, LONGEST)).astype(F) if bias else None
        projected = x @ w + b
        parts = projected[:, :q_size], projected[:, q_size:2 * q_size], projected[:, 2 * q_size:]
        y = attention(*parts, heads, scale or 1 / math.sqrt(q_size // heads), extra)
        attributes = {"num_heads": heads} | ({"qkv_hidden_sizes": sizes} if sizes else {}) | ({"scale": scale} if scale else {})
        add.add("PackedAttention_" + name, "PackedAttention", [x, w, b, offset, sums] + ([extra] if bias else []), attributes,
                expected=y.astype(F), atol=1e-5, **MICROSOFT)
    for name, packed, with_bias in [("apart", False, False), ("apart_bias", False, True), ("packed", True, False),
                                    ("packed_bias", True, True)]:
        r = add.rng("PackedMultiHeadAttention" + name)
        q, k, v = (r.normal(size=(tokens, hidden)).astype(F) for _ in range(3))
        bias = r.normal(size=3 * hidden).astype(F) if with_bias else None
        added = [x + bias[i * hidden:(i + 1) * hidden] if with_bias else x for i, x in enumerate((q, k, v))]
        y = attention(*added, heads, 1 / math.sqrt(hidden // heads))
        given = [q, k, v]
        if packed:
            given = [np.stack([x.reshape(tokens, heads, -1) for x in (q, k, v)], 2), None, None]
        add.add("PackedMultiHeadAttention_" + name, "PackedMultiHeadAttention", given + [bias, offset, sums],
                {"num_heads": heads}, expected=y.astype(F), atol=1e-5, **MICROSOFT)
    r = add.rng("gated packed")
    size, d, s = 4, 6, LONGEST
    query, bias = r.normal(size=(tokens, heads * size)).astype(F), r.normal(size=heads * size).astype(F)
    rel, weight = r.normal(size=(1, heads, s, s)).astype(F), r.normal(size=(size, d)).astype(F)
    wb, eco = r.normal(size=d).astype(F), r.normal(size=(1, heads, 1, 1)).astype(F)
    padded = np.zeros((len(LENGTHS) * s, heads * size), F)
    padded[real] = query
    q = (padded + bias).reshape(len(LENGTHS), s, heads, size).transpose(0, 2, 1, 3)
    gates = sigmoid((q @ weight + wb).reshape(len(LENGTHS), heads, s, 2, d // 2).sum(-1))
    y = (gates[..., :1] * (gates[..., 1:] * eco - 1) + 2) * rel
    add.add("GatedRelativePositionBias_packed", "GatedRelativePositionBias", [query, bias, rel, weight, wb, eco, offset],
            {"num_heads": heads}, expected=y.astype(F), atol=1e-5, **MICROSOFT)
