"""Encoders of text."""
import numpy as np
from modelgen import text as shapes
from modelgen.layers import eager_attention, embedding, gelu, layer_norm_op, linear, merge_heads, split_heads

from .registry import Graph, architecture

VOCAB, HIDDEN, HEADS, INNER = 120, 32, 4, 64


def tokens(batch, length, types=True, padded=0):
    def make(rng):
        mask = np.ones((batch, length), np.int64)
        if padded:
            mask[-1, length - padded:] = 0
        feeds = {"input_ids": rng.integers(1, VOCAB, (batch, length)), "attention_mask": mask}
        return {**feeds, "token_type_ids": rng.integers(0, 2, (batch, length))} if types else feeds

    return make


SETS = (tokens(1, 7), tokens(2, 12, padded=4), tokens(3, 1))
BARE = (tokens(1, 7, False), tokens(2, 12, False, padded=4), tokens(3, 1, False))


@architecture("bert_eager", *SETS, variants=("f16", "bf16", "dynamic_u8", "dynamic_s8", "qdq_u8s8", "q4", "bnb4_nf4", "f8"),
              what="BERT, attention written out")
def bert_eager(name):
    return shapes.bert(name, HIDDEN, 2, HEADS, INNER, "eager", vocab=VOCAB, positions=64)


@architecture("bert_sdpa", *SETS, what="BERT, attention as scaled_dot_product_attention is exported")
def bert_sdpa(name):
    return shapes.bert(name, HIDDEN, 2, HEADS, INNER, "sdpa", vocab=VOCAB, positions=64)


@architecture("modernbert", *BARE, variants=("f16", "dynamic_u8"), what="rotary positions, GeGLU, local attention")
def modernbert(name):
    return shapes.modernbert(name, HIDDEN, 4, HEADS, 48, VOCAB, window=4)


@architecture("t5_encoder", *BARE, variants=("dynamic_s8",), what="relative positions in buckets")
def t5_encoder(name):
    return shapes.t5_encoder(name, HIDDEN, 2, HEADS, INNER, VOCAB)


def clip_sets(batch, length):
    def make(rng):
        ids = rng.integers(1, VOCAB - 1, (batch, length))
        ids[:, -1] = VOCAB - 1  # the end of the text has the largest id
        return {"input_ids": ids}

    return make


@architecture("clip_text", clip_sets(1, 6), clip_sets(3, 9), variants=("f16",), what="pooled at the end of the text (ArgMax)")
def clip_text(name):
    g = Graph(name, opset=17)
    ids = g.input("input_ids", ["batch_size", "sequence_length"], np.int64)
    width = HIDDEN // HEADS
    length = g.dim(ids, 1)
    x = embedding(g, ids, VOCAB, HIDDEN, "token_embedding")
    places = g.slice(g.normal("position_embedding.weight", (32, HIDDEN), 0.3), 0, g.unsqueeze(length, 0), 0)
    x = g.op("Add", x, places)
    rows = g.op("Range", g.i(0), length, g.i(1))
    later = g.op("Greater", g.unsqueeze(rows, 0), g.unsqueeze(rows, 1))
    mask = g.op("Where", later, g.f(float(np.finfo(np.float32).min)), g.f(0))
    for index in range(2):
        with g.scope(f"layers.{index}"):
            y = layer_norm_op(g, x, HIDDEN, "layer_norm1", 1e-5)
            q, k, v = (split_heads(g, linear(g, y, HIDDEN, HIDDEN, n), HEADS, width) for n in ("q", "k", "v"))
            y = merge_heads(g, eager_attention(g, q, k, v, width, mask), HEADS, width)
            x = g.op("Add", x, linear(g, y, HIDDEN, HIDDEN, "out"))
            y = linear(g, layer_norm_op(g, x, HIDDEN, "layer_norm2", 1e-5), HIDDEN, INNER, "fc1")
            y = g.op("Mul", y, g.op("Sigmoid", g.op("Mul", y, g.f(1.702))))
            x = g.op("Add", x, linear(g, y, INNER, HIDDEN, "fc2"))
    x = layer_norm_op(g, x, HIDDEN, "final_layer_norm", 1e-5)
    flat = g.reshape(x, [-1, HIDDEN])
    starts = g.op("Mul", g.op("Range", g.i(0), g.dim(ids, 0), g.i(1)), length)
    pooled = g.op("Gather", flat, g.op("Add", starts, g.op("ArgMax", ids, axis=1, keepdims=0)), axis=0)
    y = linear(g, pooled, HIDDEN, 16, "text_projection", bias=False)
    norm = g.op("ReduceL2", y, axes=[-1], keepdims=1)
    g.output(g.op("Div", y, norm), "text_embeds", ["batch_size", 16])
    g.output(x, "last_hidden_state", ["batch_size", "sequence_length", HIDDEN])
    return g


def ids_alone(batch, length):
    return lambda rng: {"input_ids": rng.integers(0, VOCAB, (batch, length))}


@architecture("text_cnn", ids_alone(1, 9), ids_alone(3, 21), variants=("f16",), what="convolutions of three widths, maxima")
def text_cnn(name):
    g = Graph(name, opset=13)
    ids = g.input("input_ids", ["batch_size", "sequence_length"], np.int64)
    x = g.transpose(embedding(g, ids, VOCAB, HIDDEN, "embedding"), 0, 2, 1)
    parts = []
    for width in (2, 3, 5):
        with g.scope(f"convs.{width}"):
            weight = g.normal("weight", (24, HIDDEN, width), 0.1)
            y = g.op("Conv", x, weight, g.normal("bias", (24,), 0.1), kernel_shape=[width], strides=[1], dilations=[1],
                     pads=[0, 0], group=1)
            parts.append(g.op("ReduceMax", g.op("Relu", y), axes=[2], keepdims=0))
    y = gelu(g, linear(g, g.op("Concat", *parts, axis=1), 72, 32, "hidden"))
    g.output(linear(g, y, 32, 5, "classifier"), "logits", ["batch_size", 5])
    return g
