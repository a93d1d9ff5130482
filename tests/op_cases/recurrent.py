"""RNN, GRU, LSTM in all directions; attention."""
import itertools

import numpy as np

F = np.float32


def recurrent(add):
    sequence, batch, inputs, hidden = 4, 2, 3, 5
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        for direction in ("forward", "reverse", "bidirectional"):
            count = 2 if direction == "bidirectional" else 1
            r = add.rng(op + direction)
            x = r.normal(size=(sequence, batch, inputs)).astype(F)
            w = (0.4 * r.normal(size=(count, gates * hidden, inputs))).astype(F)
            recurrence = (0.4 * r.normal(size=(count, gates * hidden, hidden))).astype(F)
            b = (0.1 * r.normal(size=(count, 2 * gates * hidden))).astype(F)
            lengths, h = np.array([4, 2], np.int32), r.normal(size=(count, batch, hidden)).astype(F)
            outputs = 3 if op == "LSTM" else 2
            attributes = {"hidden_size": hidden, "direction": direction}
            for label, extra in {"plain": [b], "lengths": [b, lengths], "state": [None, None, h]}.items():
                if label == "state" and op == "LSTM":
                    extra = [*extra, -h]
                add.add(f"{op}_{direction}_{label}", op, [x, w, recurrence, *extra], attributes, outputs=outputs,
                        by="onnxruntime", atol=1e-5)
            if op == "GRU":
                add.add(f"GRU_{direction}_before_reset", op, [x, w, recurrence, b], {**attributes, "linear_before_reset": 1},
                        outputs=outputs, by="onnxruntime", atol=1e-5)
            add.add(f"{op}_{direction}_clip", op, [x, w, recurrence, b], {**attributes, "clip": 0.5}, outputs=outputs,
                    by="onnxruntime", atol=1e-5)


def attention(add):
    def softmax(x):
        top = x.max(-1, keepdims=True)
        e = np.exp(x - np.where(np.isfinite(top), top, 0))
        total = e.sum(-1, keepdims=True)
        return e / np.where(total == 0, 1, total)

    for causal, kv_heads, mask, softcap in itertools.product((0, 1), (4, 2, 1), (None, "bool", "float"), (0.0, 2.0)):
        name = f"Attention_{causal}_{kv_heads}_{mask}_{softcap:g}"
        r = add.rng(name)
        q, k, v = (r.normal(size=s) for s in ((2, 4, 3, 8), (2, kv_heads, 5, 8), (2, kv_heads, 5, 6)))
        scores = q @ k.repeat(4 // kv_heads, 1).swapaxes(2, 3) / np.sqrt(8)
        if softcap:
            scores = softcap * np.tanh(scores / softcap)
        inputs = [q.astype(F), k.astype(F), v.astype(F)]
        if mask == "bool":
            inputs.append(r.uniform(size=(3, 5)) > 0.4)
            scores = np.where(inputs[3], scores, -np.inf)
        elif mask == "float":
            inputs.append(r.normal(size=(1, 1, 3, 5)).astype(F))
            scores = scores + inputs[3]
        if causal:
            scores = np.where(np.tri(3, 5, dtype=bool), scores, -np.inf)
        y = softmax(scores) @ v.repeat(4 // kv_heads, 1)
        add.add(name, "Attention", inputs, {"is_causal": causal, "softcap": softcap}, version=24, expected=y.astype(F),
                atol=1e-5)
    r = add.rng("rotary")
    x = r.normal(size=(1, 2, 3, 4)).astype(F)
    angle = np.arange(3)[:, None] / np.array([1, 10])
    cos, sin = np.cos(angle).astype(F), np.sin(angle).astype(F)
    for interleaved in (0, 1):
        a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :2], x[..., 2:])
        left, right = a * cos - b * sin, b * cos + a * sin
        y = np.stack([left, right], -1).reshape(x.shape) if interleaved else np.concatenate([left, right], -1)
        add.add(f"RotaryEmbedding_{interleaved}", "RotaryEmbedding", [x, cos[None], sin[None]], {"interleaved": interleaved},
                expected=y)


def add_cases(add):
    recurrent(add)
    attention(add)
