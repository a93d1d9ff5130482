"""com.microsoft's searches: tiny decoders as subgraphs, ONNX Runtime's CPU kernels as the authority. What it leaves unset
behind texts that have all ended is in no case."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

DOMAIN = "com.microsoft"
F = np.float32
WORDS, HIDDEN, HEADS, PLACES = 11, 6, 2, 32


class Body:
    """Nodes of a subgraph under construction; weights are its initializers, or the caller's."""

    def __init__(self, rng, prefix=""):
        self.rng, self.prefix, self.nodes, self.weights = rng, prefix, [], {}

    def node(self, op, inputs, output=None, **attributes):
        names = output if isinstance(output, list) else [output or f"{self.prefix}v{len(self.nodes)}"]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names if isinstance(output, list) else names[0]

    def constant(self, name, value):
        self.weights[self.prefix + name] = value
        return self.prefix + name

    def weight(self, name, *shape, scale=1.0):
        return self.constant(name, (self.rng.normal(size=shape) * scale).astype(F))

    def ints(self, *values):
        return self.constant(f"i{len(self.weights)}", np.array(values, np.int64))

    def heads(self, x):
        """[b, s, h] -> [b, heads, s, d]"""
        shape = self.ints(0, 0, HEADS, HIDDEN // HEADS)
        return self.node("Transpose", [self.node("Reshape", [x, shape])], perm=[0, 2, 1, 3])

    def attend(self, q, k, v, mask=None):
        """Heads in, [b, s, h] out; mask [b, keys] of ones and zeros."""
        scores = self.node("MatMul", [q, self.node("Transpose", [k], perm=[0, 1, 3, 2])])
        if mask:
            off = self.node("Sub", [self.constant("one", np.array(1, F)), self.node("Cast", [mask], to=TensorProto.FLOAT)])
            off = self.node("Mul", [off, self.constant("low", np.array(-1e4, F))])
            scores = self.node("Add", [scores, self.node("Unsqueeze", [off, self.ints(1, 2)])])
        y = self.node("MatMul", [self.node("Softmax", [scores], axis=-1), v])
        return self.node("Tanh", [self.node("Reshape", [self.node("Transpose", [y], perm=[0, 2, 1, 3]), self.ints(0, 0, HIDDEN)])])

    def graph(self, name, inputs, outputs, keep=True):
        info = lambda n, shape, kind: helper.make_tensor_value_info(n, kind, shape)
        weights = [numpy_helper.from_array(v, k) for k, v in self.weights.items()] if keep else []
        return helper.make_graph(self.nodes, name, [info(*i) for i in inputs], [info(*o) for o in outputs], weights)


def gpt(rng, keep=True, layers=2, scale=1.0, prefix=""):
    b = Body(rng, prefix)
    x = b.node("Gather", [b.weight("words", WORDS, HIDDEN), "input_ids"])
    x = b.node("Add", [x, b.node("Gather", [b.weight("places", PLACES, HIDDEN, scale=1.8), "position_ids"])])
    for i in range(layers):
        h = b.node("Unsqueeze", [b.heads(x), b.ints(0)])
        b.node("Concat", [f"past_{i}", b.node("Concat", [h, h], axis=0)], f"present_{i}", axis=3)
        k, v = b.node("Split", [f"present_{i}"], [f"keys{i}", f"values{i}"], axis=0, num_outputs=2)
        first = b.ints(0)
        x = b.node("Add", [x, b.attend(b.heads(x), b.node("Squeeze", [k, first]), b.node("Squeeze", [v, first]),
                                       "attention_mask")])
    b.node("MatMul", [x, b.weight("out", HIDDEN, WORDS, scale=scale)], "logits")
    ints, floats = TensorProto.INT32, TensorProto.FLOAT
    cache = lambda n, length: (n, [2, "b", HEADS, length, HIDDEN // HEADS], floats)
    graph = b.graph("decoder", [("input_ids", ["b", "s"], ints), ("position_ids", ["b", "s"], ints),
                                ("attention_mask", ["b", "t"], ints), *(cache(f"past_{i}", "p") for i in range(layers))],
                    [("logits", ["b", "s", WORDS], floats), *(cache(f"present_{i}", "t") for i in range(layers))], keep)
    return graph, b.weights


def t5(rng, states=True):
    """Encoder and decoder as ONNX Runtime's exporter writes them; `states`: the decoder takes hidden states, too."""
    ints, floats, size = TensorProto.INT32, TensorProto.FLOAT, HIDDEN // HEADS
    words, out = rng.normal(size=(WORDS, HIDDEN)).astype(F), (rng.normal(size=(HIDDEN, WORDS)) * 3).astype(F)
    keys, values = rng.normal(size=(HIDDEN, HIDDEN)).astype(F), rng.normal(size=(HIDDEN, HIDDEN)).astype(F)

    def decode(b, ids, past, cross):
        x = b.node("Gather", [b.constant("words", words), ids])
        new = [b.heads(b.node("MatMul", [x, b.constant(n, w)])) for n, w in (("wk", keys), ("wv", values))]
        present = ["present_key_self_0", "present_value_self_0"]
        for i in range(2):
            if past:
                b.node("Concat", [past[i], new[i]], present[i], axis=2)
            else:
                b.node("Identity", [new[i]], present[i])
        x = b.node("Add", [x, b.attend(b.heads(x), *present)])
        x = b.node("Add", [x, b.attend(b.heads(x), *cross, "encoder_attention_mask")])
        b.node("MatMul", [x, b.constant("out", out)], "logits")

    e = Body(rng)
    hidden = e.node("Tanh", [e.node("Gather", [e.constant("words", words), "encoder_input_ids"])], "encoder_hidden_states")
    for name, w in (("present_key_cross_0", keys), ("present_value_cross_0", values)):
        e.node("Identity", [e.heads(e.node("MatMul", [hidden, e.constant(name + "w", w)]))], name)
    decode(e, "decoder_input_ids", None, ["present_key_cross_0", "present_value_cross_0"])
    cache = lambda n, length: (n, ["b", HEADS, length, size], floats)
    both = lambda stem, length: [cache(f"{stem.format('key')}_0", length), cache(f"{stem.format('value')}_0", length)]
    encoder = e.graph("encoder", [("encoder_input_ids", ["b", "e"], ints), ("encoder_attention_mask", ["b", "e"], ints),
                                  ("decoder_input_ids", ["b", 1], ints)],
                      [("logits", ["b", 1, WORDS], floats), ("encoder_hidden_states", ["b", "e", HIDDEN], floats),
                       *both("present_{}_self", 1), *both("present_{}_cross", "e")])
    d = Body(rng)
    decode(d, "input_ids", ["past_key_self_0", "past_value_self_0"], ["past_key_cross_0", "past_value_cross_0"])
    given = [("input_ids", ["b", 1], ints), ("encoder_attention_mask", ["b", "e"], ints)]
    if states:
        given.append(("encoder_hidden_states", ["b", "e", HIDDEN], floats))
    decoder = d.graph("decoder", [*given, *both("past_{}_self", "p"), *both("past_{}_cross", "e")],
                      [("logits", ["b", 1, WORDS], floats), *both("present_{}_self", "t")])
    return encoder, decoder


def search(add, name, op, inputs, attributes, outputs=1, weights=None, by="onnxruntime", **meta):
    """`inputs`: (name, array) in the operator's order; an array of None is left out."""
    fed = {k: np.asarray(v, FLOATS.get(k, np.int32)) for k, v in inputs if v is not None}
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, [k if v is not None else "" for k, v in inputs], results, domain=DOMAIN, **attributes)
    add.add_graph(name, [node], fed | (weights or {}), results, constants=list(weights or {}), domains=[DOMAIN], op=op,
                  domain=DOMAIN, by=by, version=21, atol=1e-4, **meta)


PROMPTS = [[9, 3, 4, 1], [5, 6, 7, 2]]  # 9 is the padding
FLOATS = {"penalty": F, "length_penalty": F}


def greedy(add):
    graph, weights = gpt(add.rng("gpt51"))
    base = {"decoder": graph, "eos_token_id": 10, "pad_token_id": 9}
    ids, most = ("ids", PROMPTS), ("most", [12])
    for name, more, attributes in [
            ("plain", [], {}), ("one_ends", [], {"eos_token_id": 7}), ("one_ends_late", [], {"eos_token_id": 1}), ("start", [], {"vocab_size": WORDS}),
            ("penalty", [("least", None), ("penalty", [1.7])], {}),
            ("no_repeat", [], {"no_repeat_ngram_size": 2}),
            ("least", [("least", [9])], {"eos_token_id": 7}),
            ("masks", [("least", None), ("penalty", None), ("vocab", [1, 1, 0, 1, 1, 1, 0, 1, 1, 0, 0]),
                       ("prefix", np.eye(2, WORDS, 3, np.int32) + np.eye(2, WORDS, 1, np.int32))], {}),
            ("attention", [("least", None), ("penalty", None), ("vocab", None), ("prefix", None),
                           ("mask", [[0, 0, 1, 1], [0, 1, 1, 1]])], {})]:
        search(add, f"GreedySearch_{name}", "GreedySearch", [ids, most, *more], base | attributes)
    # What stands behind the last end is padding; ONNX Runtime leaves it unset.
    search(add, "GreedySearch_all_end", "GreedySearch", [ids, most], base | {"no_repeat_ngram_size": 1, "eos_token_id": 8},
           by="hand", expected=np.array([[9, 3, 4, 1, 7, 9, 9, 9, 9, 9, 9, 9], [5, 6, 7, 2, 4, 0, 1, 3, 10, 9, 9, 9]], np.int32))
    outer, weights = gpt(add.rng("gpt51"), keep=False)
    search(add, "GreedySearch_outer_weights", "GreedySearch", [ids, most], base | {"decoder": outer}, weights=weights)
    for name, attributes in [("greatest", {"custom": 1, "top_p": 0.6}), ("least", {"top_p": 0.7, "temperature": 1.5}),
                             ("kept", {"top_p": 0.01, "min_tokens_to_keep": 4, "temperature": 2.0})]:
        search(add, f"Sampling_{name}", "Sampling", [ids, most, ("least", None), ("penalty", None), ("vocab", None),
               ("prefix", None), ("mask", None), ("presence", None), ("seed", [7])], base | attributes)
    # ONNX Runtime takes every word's penalty from the first one's score; these are its texts with a bias of -5 in the
    # decoder instead.
    search(add, "Sampling_presence", "Sampling", [ids, most, ("least", None), ("penalty", None), ("vocab", None),
           ("prefix", None), ("mask", None), ("presence", [[0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0]] * 2), ("seed", [3])],
           base | {"presence_penalty": 5.0, "top_p": 0.9}, by="hand",
           expected=np.array([[9, 3, 4, 1, 7, 8, 6, 0, 3, 0, 1, 2], [5, 6, 7, 2, 4, 6, 4, 2, 3, 4, 7, 9]], np.int32))


def beams(add):
    graph, _ = gpt(add.rng("gpt51"))
    first, _ = gpt(add.rng("another"))
    base = {"decoder": graph, "eos_token_id": 4, "pad_token_id": 9}
    ids, most = ("ids", PROMPTS), ("most", [12])
    counts = lambda n, r, length=1.0, least=0: [("least", [least]), ("beams", [n]), ("returned", [r]),
                                                ("length_penalty", [length])]
    for name, more, attributes, outputs in [
            ("one", counts(1, 1), {}, 1), ("three", counts(3, 2), {}, 2), ("all", counts(4, 4), {"eos_token_id": 10}, 3),
            ("early", counts(3, 3), {"early_stopping": 1}, 2), ("no_repeat", counts(2, 2), {"no_repeat_ngram_size": 2}, 2),
            ("long", counts(3, 3, 2.0), {}, 2),
            ("least", counts(3, 1, least=8), {}, 2),
            ("opening", counts(3, 2), {"init_decoder": first}, 2)]:
        search(add, f"BeamSearch_{name}", "BeamSearch", [ids, most, *more], base | attributes, outputs)
    # One text at a time: in a batch ONNX Runtime asks a neighbour's beams whether a text can still get better.
    for i, prompt in enumerate(PROMPTS):
        search(add, f"BeamSearch_penalties_{i}", "BeamSearch", [("ids", [prompt]), most, *counts(3, 3, 0.5), ("penalty", [1.4])],
               base, 2)
    for states in (False, True):
        encoder, decoder = t5(add.rng("t5"), states)
        attributes = {"encoder": encoder, "decoder": decoder, "model_type": 1, "decoder_start_token_id": 0,
                      "eos_token_id": 4, "pad_token_id": 9}
        for n in (1, 3):
            search(add, f"BeamSearch_t5_{n}{'_states' if states else ''}", "BeamSearch", [ids, most, *counts(n, n)],
                   attributes, 2)


def refusals(add):
    graph, _ = gpt(add.rng("gpt51"))
    base = {"decoder": graph, "eos_token_id": 10, "pad_token_id": 9}
    ids, count = np.array(PROMPTS, np.int32), lambda n: np.array([n], np.int32)
    refuse = lambda name, op, inputs, attributes, word: add.refused(name, op, inputs, attributes, domain=DOMAIN, version=21,
                                                                   must_mention=[word])
    refuse("GreedySearch_prompt_too_long", "GreedySearch", [ids, count(4)], base, "max_length")
    refuse("GreedySearch_vocabulary", "GreedySearch", [ids, count(8)], base | {"vocab_size": WORDS + 1}, "logits")
    refuse("GreedySearch_mask", "GreedySearch", [ids, count(8), None, None, count(1)], base, "vocab_mask")
    refuse("BeamSearch_returned", "BeamSearch", [ids, count(8), count(0), count(2), count(3)], base, "num_return_sequences")
    refuse("BeamSearch_whisper", "BeamSearch", [ids, count(8), count(0), count(2), count(1)], base | {"model_type": 2},
           "model_type")


def add_cases(add):
    greedy(add)
    beams(add)
    refusals(add)
