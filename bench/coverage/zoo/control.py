"""Loops, scans, recurrences, experts, and sizes that depend on data."""
import numpy as np
from modelgen.layers import embedding, gelu, layer_norm_op, linear
from onnx import TensorProto, helper

from .registry import Graph, architecture

VOCAB, HIDDEN = 90, 32


def body(name, nodes, inputs, outputs):
    """A subgraph; inputs and outputs are (name, element type, shape)."""
    def info(entry):
        return helper.make_tensor_value_info(*entry)

    return helper.make_graph(nodes, name, [info(i) for i in inputs], [info(o) for o in outputs])


def ids(batch, length):
    return lambda rng: {"input_ids": rng.integers(0, VOCAB, (batch, length))}


FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


@architecture("rwkv_loop", ids(1, 5), ids(2, 9), variants=("f16",), what="a Loop over time with two states")
def rwkv_loop(name):
    g = Graph(name, opset=17)
    tokens = g.input("input_ids", ["batch_size", "sequence_length"], np.int64)
    x = embedding(g, tokens, VOCAB, HIDDEN, "embed", 0.5)
    length, batch = g.dim(tokens, 1), g.dim(tokens, 0)
    k, v, r = (linear(g, layer_norm_op(g, x, HIDDEN, f"norm_{n}", 1e-5), HIDDEN, HIDDEN, n) for n in ("k", "v", "r"))
    by_time = [g.transpose(y, 1, 0, 2) for y in (k, v)]
    decay = g.param("decay", np.linspace(0.3, 0.95, HIDDEN, dtype=np.float32))
    zero = g.op("ConstantOfShape", g.shape_vector([batch, HIDDEN]))
    inner = Graph(f"{name}.time", opset=17)
    with inner.scope("time"):
        key = inner.op("Gather", by_time[0], "t", axis=0)
        value = inner.op("Gather", by_time[1], "t", axis=0)
        weight = inner.op("Exp", inner.op("Min", key, inner.f(4)))
        top = inner.op("Add", inner.op("Mul", "top_in", decay), inner.op("Mul", weight, value))
        bottom = inner.op("Add", inner.op("Mul", "bottom_in", decay), weight)
        row = inner.op("Div", top, inner.op("Add", bottom, inner.f(1e-6)))
        going = inner.op("Identity", "going_in")
    rows = ["batch", HIDDEN]
    loop = body("time", inner.nodes, [("t", INT64, []), ("going_in", BOOL, []), ("top_in", FLOAT, rows),
                                      ("bottom_in", FLOAT, rows)],
                [(going, BOOL, []), (top, FLOAT, rows), (bottom, FLOAT, rows), (row, FLOAT, rows)])
    _, _, mixed = g.op("Loop", length, g.constant(True, np.bool_), zero, zero, n=3, body=loop)
    mixed = g.op("Mul", g.op("Sigmoid", r), g.transpose(mixed, 1, 0, 2))
    x = g.op("Add", x, linear(g, mixed, HIDDEN, HIDDEN, "out"))
    g.output(linear(g, x, HIDDEN, VOCAB, "head", bias=False), "logits", ["batch_size", "sequence_length", VOCAB])
    return g


@architecture("ssm_scan", ids(1, 6), ids(2, 4), what="a state space model: a Scan over time")
def ssm_scan(name, states=4):
    g = Graph(name, opset=17)
    tokens = g.input("input_ids", ["batch_size", "sequence_length"], np.int64)
    x = embedding(g, tokens, VOCAB, HIDDEN, "embed", 0.5)
    delta = g.op("Softplus", linear(g, x, HIDDEN, HIDDEN, "dt"))
    b, c = (linear(g, x, HIDDEN, states, n, bias=False) for n in ("b", "c"))
    a = g.param("a", -np.tile(np.arange(1, states + 1, dtype=np.float32), (HIDDEN, 1)))
    decay = g.op("Exp", g.op("Mul", g.unsqueeze(delta, 3), a))
    grown = g.op("Mul", g.op("Mul", g.unsqueeze(delta, 3), g.unsqueeze(b, 2)), g.unsqueeze(x, 3))
    zero = g.op("ConstantOfShape", g.shape_vector([g.dim(tokens, 0), HIDDEN, states]))
    inner = Graph(f"{name}.time", opset=17)
    with inner.scope("time"):
        state = inner.op("Add", inner.op("Mul", "state_in", "decay_t"), "grown_t")
        row = inner.op("ReduceSum", inner.op("Mul", state, inner.op("Unsqueeze", "c_t", inner.iv(1))), inner.iv(2), keepdims=0)
    wide, rows = ["batch", HIDDEN, states], ["batch", HIDDEN]
    scan = body("time", inner.nodes, [("state_in", FLOAT, wide), ("decay_t", FLOAT, wide), ("grown_t", FLOAT, wide),
                                      ("c_t", FLOAT, ["batch", states])], [(state, FLOAT, wide), (row, FLOAT, rows)])
    last, y = g.op("Scan", zero, decay, grown, c, n=2, body=scan, num_scan_inputs=3, scan_input_axes=[1, 1, 1],
                   scan_output_axes=[1])
    y = g.op("Add", y, g.op("Mul", x, g.normal("d", (HIDDEN,), 0.3)))
    g.output(linear(g, y, HIDDEN, VOCAB, "head", bias=False), "logits", ["batch_size", "sequence_length", VOCAB])
    g.output(last, "state", ["batch_size", HIDDEN, states])
    return g


def tagger(kind, gates):
    def build(name, units=16, tags=7):
        g = Graph(name, opset=14)
        tokens = g.input("input_ids", ["batch_size", "sequence_length"], np.int64)
        lengths = g.input("lengths", ["batch_size"], np.int64)
        x = g.transpose(embedding(g, tokens, VOCAB, HIDDEN, "embed", 0.5), 1, 0, 2)
        w = g.normal("W", (2, gates * units, HIDDEN), 0.3)
        r = g.normal("R", (2, gates * units, units), 0.3)
        b = g.normal("B", (2, 2 * gates * units), 0.1)
        extra = {"linear_before_reset": 1} if kind == "GRU" else {}
        y = g.op(kind, x, w, r, b, g.cast(lengths, np.int32), n=3 if kind == "LSTM" else 2, hidden_size=units,
                 direction="bidirectional", **extra)[0]
        y = g.reshape(g.transpose(y, 2, 0, 1, 3), [0, 0, -1])
        g.output(linear(g, y, 2 * units, tags, "tags"), "logits", ["batch_size", "sequence_length", tags])
        return g

    return build


def tagged(batch, length):
    def make(rng):
        return {"input_ids": rng.integers(0, VOCAB, (batch, length)),
                "lengths": np.sort(rng.integers(1, length + 1, batch))[::-1].copy()}

    return make


for _kind, _gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
    architecture(f"tagger_{_kind.lower()}", tagged(1, 6), tagged(3, 11), what=f"a bidirectional {_kind} with lengths")(
        tagger(_kind, _gates))


def hidden_states(batch, length):
    return lambda rng: {"hidden_states": rng.standard_normal((batch, length, HIDDEN)).astype(np.float32)}


@architecture("experts_nonzero", hidden_states(1, 5), hidden_states(2, 7), what="a mixture of experts: NonZero, Gather, ScatterND")
def experts(name, count=4, inner=24):
    g = Graph(name, opset=18)
    x = g.input("hidden_states", ["batch_size", "sequence_length", HIDDEN])
    flat = g.reshape(x, [-1, HIDDEN])
    scores = g.op("Softmax", linear(g, flat, HIDDEN, count, "router", bias=False), axis=-1)
    weights, chosen = g.op("TopK", scores, g.iv(2), n=2, axis=-1)
    weights = g.op("Div", weights, g.op("ReduceSum", weights, g.iv(-1), keepdims=1))
    out = g.op("ConstantOfShape", g.op("Shape", flat))
    for expert in range(count):
        with g.scope(f"experts.{expert}"):
            where = g.op("NonZero", g.op("Equal", chosen, g.i(expert)))
            rows, slots = g.split(where, [1, 1], 0)
            rows = g.op("Squeeze", rows, g.iv(0))
            slots = g.op("Squeeze", slots, g.iv(0))
            y = g.op("Gather", flat, rows, axis=0)
            y = linear(g, gelu(g, linear(g, y, HIDDEN, inner, "up")), inner, HIDDEN, "down")
            share = g.op("GatherND", weights, g.op("Concat", g.unsqueeze(rows, 1), g.unsqueeze(slots, 1), axis=1))
            y = g.op("Mul", y, g.unsqueeze(share, 1))
            out = g.op("ScatterND", out, g.unsqueeze(rows, 1), y, reduction="add")
    g.output(g.op("Reshape", out, g.op("Shape", x)), "output", ["batch_size", "sequence_length", HIDDEN])
    return g


def boxes_and_scores(batch, count):
    def make(rng):
        corner = rng.random((batch, count, 2)).astype(np.float32) * 40
        size = 4 + rng.random((batch, count, 2)).astype(np.float32) * 12
        return {"boxes": np.concatenate([corner, corner + size], 2),
                "scores": rng.random((batch, 3, count)).astype(np.float32)}

    return make


@architecture("detection_end", boxes_and_scores(1, 20), boxes_and_scores(2, 35),
              what="the end of a detector: NonMaxSuppression, TopK of what is left")
def detection_end(name):
    g = Graph(name, opset=17)
    boxes = g.input("boxes", ["batch_size", "anchors", 4])
    scores = g.input("scores", ["batch_size", 3, "anchors"])
    kept = g.op("NonMaxSuppression", boxes, scores, g.iv(10), g.constant([0.4], np.float32), g.constant([0.3], np.float32))
    found = g.op("GatherND", scores, kept)
    best, order = g.op("TopK", found, g.op("Min", g.iv(8), g.op("Shape", found)), n=2, axis=0)
    kept = g.op("Gather", kept, order, axis=0)
    place = g.op("Gather", kept, g.iv(0, 2), axis=1)
    g.output(g.op("GatherND", boxes, place), "found_boxes", ["found", 4])
    g.output(best, "found_scores", ["found"])
    g.output(g.op("Gather", kept, g.i(1), axis=1), "found_classes", ["found"], np.int64)
    return g


def spoken(length):
    return lambda rng: {"input_ids": rng.integers(0, VOCAB, (1, length)), "speed": np.array([0.8 + 0.05 * length], np.float32)}


@architecture("durations_tts", spoken(5), spoken(9), spoken(5), what="speech: as many frames as durations that the model predicts")
def durations(name, mel=12):
    g = Graph(name, opset=17)
    tokens = g.input("input_ids", [1, "sequence_length"], np.int64)
    speed = g.input("speed", [1])
    x = embedding(g, tokens, VOCAB, HIDDEN, "embed", 0.7)
    long = g.op("Exp", g.op("Squeeze", linear(g, x, HIDDEN, 1, "duration"), g.iv(2)))
    frames = g.op("Clip", g.op("Ceil", g.op("Div", g.op("Mul", long, g.f(3)), speed)), g.f(1), g.f(9))
    ends = g.op("CumSum", frames, g.i(1))
    total = g.cast(g.op("ReduceMax", ends, keepdims=0), np.int64)
    at = g.cast(g.op("Range", g.i(0), total, g.i(1)), np.float32)
    before = g.op("Less", g.unsqueeze(at, 0, 2), g.unsqueeze(ends, 1))
    starts = g.op("Sub", ends, frames)
    after = g.op("GreaterOrEqual", g.unsqueeze(at, 0, 2), g.unsqueeze(starts, 1))
    alignment = g.cast(g.op("And", before, after), np.float32)
    y = g.op("Tanh", linear(g, g.op("MatMul", alignment, x), HIDDEN, HIDDEN, "decoder"))
    g.output(linear(g, y, HIDDEN, mel, "mel"), "mel", [1, "frames", mel])
    g.output(frames, "durations", [1, "sequence_length"])
    return g


def chunk(rate):
    def make(rng):
        size = 64 if rate == 16000 else 32
        return {"input": rng.standard_normal((1, size)).astype(np.float32) * 0.3,
                "state": rng.standard_normal((2, 1, 16)).astype(np.float32) * 0.2, "sr": np.array(rate)}

    return make


@architecture("vad_if", chunk(16000), chunk(8000), chunk(16000), what="voice activity: an If by the rate, an LSTM with its state")
def vad(name, units=16):
    g = Graph(name, opset=16)
    x = g.input("input", [1, "samples"])
    state = g.input("state", [2, 1, units])
    rate = g.input("sr", [], np.int64)

    def branch(label, kernel, stride):
        inner = Graph(f"{name}.{label}", opset=16)
        with inner.scope(label):
            weight = inner.param("basis", inner.rng(label).standard_normal((24, 1, kernel)).astype(np.float32) * 0.3)
            y = inner.op("Conv", inner.op("Unsqueeze", x, inner.iv(1)), weight, strides=[stride], kernel_shape=[kernel])
            y = inner.op("Relu", y)
        inner_graph = body(label, inner.nodes, [], [(y, FLOAT, [1, 24, "frames"])])
        tensors = [helper.make_tensor(n, FLOAT, a.shape, a.tobytes(), raw=True) for n, a in inner._weights.items()]
        inner_graph.initializer.extend(tensors)
        return inner_graph

    y = g.op("If", g.op("Equal", rate, g.i(16000)), then_branch=branch("wide", 16, 8), else_branch=branch("narrow", 8, 4))
    w, r = g.normal("W", (1, 4 * units, 24), 0.3), g.normal("R", (1, 4 * units, units), 0.3)
    h, c = (g.op("Gather", state, g.iv(i), axis=0) for i in (0, 1))
    y, h, c = g.op("LSTM", g.transpose(y, 2, 0, 1), w, r, g.normal("B", (1, 8 * units), 0.1), "", h, c, n=3, hidden_size=units)
    y = g.op("ReduceMean", g.op("Squeeze", y, g.iv(1)), axes=[0], keepdims=0)
    g.output(g.op("Sigmoid", linear(g, y, units, 1, "out")), "output", [1, 1])
    g.output(g.op("Concat", h, c, axis=0), "stateN", [2, 1, units])
    return g
