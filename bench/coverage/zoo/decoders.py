"""Decoders with caches of keys and values, in the forms in which they are exported."""
import numpy as np
from modelgen import decoder as shapes
from modelgen.layers import (
    eager_attention, embedding, gelu, layer_norm_op, linear, lowest, merge_heads, split_heads,
)
from onnx import TensorProto, helper

from .registry import Graph, architecture

VOCAB, HIDDEN, HEADS, KV, INNER, LAYERS = 120, 64, 4, 2, 96, 2
SHAPE = shapes.Shape(HIDDEN, INNER, LAYERS, HEADS, KV, 16, VOCAB, 128, 10000.0)
NORMED = shapes.Shape(HIDDEN, INNER, LAYERS, HEADS, KV, 16, VOCAB, 128, 10000.0, qk_norm=True)
BIASED = shapes.Shape(HIDDEN, INNER, LAYERS, HEADS, KV, 16, VOCAB, 128, 10000.0, qkv_bias=True)


def step(batch, length, past, positions=True, kv=KV, head=16, names="past_key_values.{}.{}", dtype=np.float32, padded=0):
    def make(rng):
        mask = np.ones((batch, past + length), np.int64)
        if padded:
            mask[-1, :padded] = 0
        feeds = {"input_ids": rng.integers(0, VOCAB, (batch, length)), "attention_mask": mask}
        if positions:
            feeds["position_ids"] = np.broadcast_to(np.arange(past, past + length), (batch, length)).copy()
        for i in range(LAYERS):
            for part in ("key", "value"):
                feeds[names.format(i, part)] = (rng.standard_normal((batch, kv, past, head)) * 0.5).astype(dtype)
        return feeds

    return make


PROMPT_AND_STEPS = (step(1, 6, 0), step(1, 1, 6), step(2, 3, 4, padded=2))
GENAI = tuple(step(b, n, p, positions=False) for b, n, p in ((1, 6, 0), (1, 1, 6), (2, 1, 4)))


@architecture("llama_optimum", *PROMPT_AND_STEPS, variants=("f16", "bf16", "dynamic_u8", "q4", "q4f16", "q8", "bnb4_fp4"),
              what="grouped heads, rotary positions, caches concatenated")
def llama_optimum(name):
    return shapes.optimum_decoder(name, SHAPE, "fp")


@architecture("qwen_optimum", *PROMPT_AND_STEPS, what="biases in q, k and v")
def qwen_optimum(name):
    return shapes.optimum_decoder(name, BIASED, "fp")


@architecture("llama_halves", *(step(b, n, p, dtype=np.float16) for b, n, p in ((1, 6, 0), (1, 1, 6), (2, 2, 4))),
              tolerance=(2e-2, 1e-2), what="exported in halves: norms in f32, caches f16")
def llama_halves(name):
    return shapes.optimum_decoder(name, SHAPE, "fp", np.float16)


@architecture("llama_genai_q4", *GENAI, what="GroupQueryAttention, MatMulNBits")
def llama_genai(name):
    return shapes.genai_decoder(name, SHAPE)


@architecture("qwen3_genai_q4", *GENAI, what="the same with normalized queries and keys")
def qwen3_genai(name):
    return shapes.genai_decoder(name, NORMED)


@architecture("llama_genai_q4_a4", *GENAI, tolerance=(5e-2, 5e-2),
              what="activations may be rounded to eight bits (accuracy_level 4)")
def llama_genai_rounded(name):
    return shapes.genai_decoder(name, SHAPE, accuracy_level=4)


def gpt2_layer(g, x, mask, past, index, heads=HEADS):
    """One block; the cache's new keys and values, too."""
    width = HIDDEN // heads
    with g.scope(f"transformer/h.{index}"):
        y = layer_norm_op(g, x, HIDDEN, "ln_1", 1e-5)
        qkv = linear(g, y, HIDDEN, 3 * HIDDEN, "c_attn")
        q, k, v = (split_heads(g, part, heads, width) for part in g.split(qkv, [HIDDEN] * 3, 2))
        if past:
            k, v = (g.op("Concat", p, n, axis=-2) for p, n in zip(past, (k, v)))
        y = merge_heads(g, eager_attention(g, q, k, v, width, mask), heads, width)
        x = g.op("Add", x, linear(g, y, HIDDEN, HIDDEN, "c_proj"))
        y = gelu(g, linear(g, layer_norm_op(g, x, HIDDEN, "ln_2", 1e-5), HIDDEN, INNER, "c_fc"))
        return g.op("Add", x, linear(g, y, INNER, HIDDEN, "mlp_proj")), (k, v)


@architecture("gpt2_past", *(step(b, n, p, kv=HEADS) for b, n, p in ((1, 5, 0), (1, 1, 5), (2, 2, 3))),
              variants=("f16", "q8"), what="learned positions, one product for q, k and v")
def gpt2(name):
    g = Graph(name, opset=17)
    ids = g.input("input_ids", ["batch_size", "sequence_length"], np.int64)
    mask = g.input("attention_mask", ["batch_size", "past_sequence_length + sequence_length"], np.int64)
    places = g.input("position_ids", ["batch_size", "sequence_length"], np.int64)
    cache = ["batch_size", HEADS, "past_sequence_length", HIDDEN // HEADS]
    past = [tuple(g.input(f"past_key_values.{i}.{part}", cache) for part in ("key", "value")) for i in range(LAYERS)]
    x = g.op("Add", embedding(g, ids, VOCAB, HIDDEN, "wte", 0.5), embedding(g, places, 64, HIDDEN, "wpe", 0.3))
    before, length = g.dim(past[0][0], 2), g.dim(ids, 1)
    rows = g.op("Range", before, g.op("Add", before, length), g.i(1))
    columns = g.op("Range", g.i(0), g.dim(mask, 1), g.i(1))
    later = g.op("Greater", g.unsqueeze(columns, 0), g.unsqueeze(rows, 1))
    hidden = g.op("Equal", g.unsqueeze(mask, 1, 2), g.i(0))
    hide = g.op("Where", g.op("Or", later, hidden), g.f(lowest(g)), g.f(0))
    for i in range(LAYERS):
        x, present = gpt2_layer(g, x, hide, past[i], i)
        for part, value in zip(("key", "value"), present):
            g.output(value, f"present.{i}.{part}", ["batch_size", HEADS, "total", HIDDEN // HEADS])
    x = layer_norm_op(g, x, HIDDEN, "ln_f", 1e-5)
    g.output(linear(g, x, HIDDEN, VOCAB, "lm_head", bias=False), "logits", ["batch_size", "sequence_length", VOCAB])
    return g


def merged_sets(batch, length, encoded, past):
    def make(rng):
        width = HIDDEN // HEADS
        feeds = {"input_ids": rng.integers(0, VOCAB, (batch, length)),
                 "encoder_attention_mask": np.ones((batch, encoded), np.int64),
                 "encoder_hidden_states": rng.standard_normal((batch, encoded, HIDDEN)).astype(np.float32),
                 "use_cache_branch": np.array([past > 0])}
        for kind, size in (("decoder", past), ("encoder", encoded if past else 0)):
            for part in ("key", "value"):
                shape = (batch, HEADS, size, width)
                feeds[f"past_key_values.0.{kind}.{part}"] = rng.standard_normal(shape).astype(np.float32)
        return feeds

    return make


@architecture("seq2seq_merged", merged_sets(1, 1, 6, 0), merged_sets(1, 1, 6, 1), merged_sets(2, 1, 4, 3),
              variants=("dynamic_u8",), what="a decoder behind an encoder: an If takes the branch with or without caches")
def seq2seq_merged(name):
    g = Graph(name, opset=17)
    width = HIDDEN // HEADS
    ids = g.input("input_ids", ["batch_size", "sequence_length"], np.int64)
    mask = g.input("encoder_attention_mask", ["batch_size", "encoder_length"], np.int64)
    states = g.input("encoder_hidden_states", ["batch_size", "encoder_length", HIDDEN])
    past = {}
    for kind, size in (("decoder", "past_length"), ("encoder", "encoder_past")):
        past[kind] = [g.input(f"past_key_values.0.{kind}.{part}", ["batch_size", HEADS, size, width])
                      for part in ("key", "value")]
    flag = g.input("use_cache_branch", [1], np.bool_)
    x = embedding(g, ids, VOCAB, HIDDEN, "embed", 0.5)
    y = layer_norm_op(g, x, HIDDEN, "self_norm", 1e-5)
    names = ("q", "k", "v")
    q, k, v = (split_heads(g, linear(g, y, HIDDEN, HIDDEN, f"self_{n}"), HEADS, width) for n in names)
    crossed = [g.normal(f"cross_{n}.weight", (HIDDEN, HIDDEN), HIDDEN**-0.5) for n in ("k", "v")]

    def branch(cached):
        """The keys and values to attend: own and the encoder's."""
        inner = Graph(f"{name}.{'cached' if cached else 'first'}", opset=17)
        prefix = "with_past" if cached else "no_past"
        with inner.scope(prefix):
            own = [inner.op("Concat", p, n, axis=2) if cached else inner.op("Identity", n)
                   for p, n in zip(past["decoder"], (k, v))]
            if cached:
                other = [inner.op("Identity", p) for p in past["encoder"]]
            else:
                other = [split_heads(inner, inner.op("MatMul", states, w), HEADS, width) for w in crossed]
        outputs = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in own + other]
        return helper.make_graph(inner.nodes, prefix, [], outputs)

    own_k, own_v, other_k, other_v = g.op("If", flag, n=4, then_branch=branch(True), else_branch=branch(False))
    y = merge_heads(g, eager_attention(g, q, own_k, own_v, width), HEADS, width)
    x = g.op("Add", x, linear(g, y, HIDDEN, HIDDEN, "self_out"))
    q = split_heads(g, linear(g, layer_norm_op(g, x, HIDDEN, "cross_norm", 1e-5), HIDDEN, HIDDEN, "cross_q"), HEADS, width)
    hidden = g.op("Equal", g.unsqueeze(mask, 1, 2), g.i(0))
    hide = g.op("Where", hidden, g.f(lowest(g)), g.f(0))
    y = merge_heads(g, eager_attention(g, q, other_k, other_v, width, hide), HEADS, width)
    x = g.op("Add", x, linear(g, y, HIDDEN, HIDDEN, "cross_out"))
    x = layer_norm_op(g, x, HIDDEN, "final_norm", 1e-5)
    g.output(linear(g, x, HIDDEN, VOCAB, "lm_head", bias=False), "logits", ["batch_size", "sequence_length", VOCAB])
    for value, label in ((own_k, "decoder.key"), (own_v, "decoder.value"), (other_k, "encoder.key"), (other_v, "encoder.value")):
        g.output(value, f"present.0.{label}", ["batch_size", HEADS, f"{label.split('.')[0]}_present", width])
    return g
