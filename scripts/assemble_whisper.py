#!/usr/bin/env python3
"""Puts the weights of Whisper tiny.en (CTranslate2's model.bin and config.json) into graphs like those of Optimum.

    assemble_whisper.py MODEL.bin CONFIG.json FOLDER

Speech recognition with 4 + 4 layers, 384 wide, 6 heads. FOLDER gets encoder_model.onnx (input_features -> last_hidden_state),
decoder_model_merged.onnx (input_ids, encoder_hidden_states, past_key_values.*, use_cache_branch -> logits, present.*), and
what its own files say besides: preprocessor_config.json and generation_config.json. Needs scripts/requirements.txt.
"""
import json
import math
import pathlib
import struct
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

from assemble_minilm import Exporter

LAYERS, WIDTH, HEADS, MELS, FRAMES, POSITIONS, VOCABULARY, OPSET = 4, 384, 6, 80, 3000, 448, 51864, 17
HEAD = WIDTH // HEADS

GENERATION = {
    "decoder_start_token_id": 50257,
    "eos_token_id": 50256,
    "pad_token_id": 50256,
    "no_timestamps_token_id": 50362,
    "max_length": POSITIONS,
}
PREPROCESSOR = {
    "feature_extractor_type": "WhisperFeatureExtractor",
    "feature_size": MELS,
    "sampling_rate": 16000,
    "n_fft": 400,
    "hop_length": 160,
    "chunk_length": 30,
}


def read_weights(path):
    """{name: array} of a model.bin: a version, a name, a revision, then the variables."""
    data = pathlib.Path(path).read_bytes()
    at = 0

    def take(layout):
        nonlocal at
        values = struct.unpack_from("<" + layout, data, at)
        at += struct.calcsize("<" + layout)
        return values

    def text():
        nonlocal at
        (size,) = take("H")
        at += size
        return data[at - size:at - 1].decode()

    (version,) = take("I")
    name = text()
    _, count = take("II")
    if version != 6 or name != "WhisperSpec":
        raise SystemExit(f"{path} holds {name} in version {version}; WhisperSpec in version 6 is known")
    dtypes = {0: "<f4", 1: "<i1", 2: "<i2", 3: "<i4", 4: "<f2"}
    weights = {}
    for _ in range(count):
        name = text()
        (rank,) = take("B")
        shape = take(f"{rank}I")
        dtype, size = take("BI")
        weights[name] = np.frombuffer(data, dtypes[dtype], size // np.dtype(dtypes[dtype]).itemsize, at).reshape(shape)
        at += size
    return {name: array.astype(np.float32) for name, array in weights.items()}


class Graph(Exporter):
    def projection(self, scope, module, x, rows=slice(None)):
        """x times some rows of a linear layer, and their biases; CTranslate2 keeps query, key and value in one."""
        name = f"{module}.{rows.start or 0}"
        self.weights[name + ".weight"] = self.weights[module + "/weight"][rows]
        self.weights[name + ".bias"] = self.weights[module + "/bias"][rows]
        return self.linear(scope, name, x)

    def norm(self, scope, module, x):
        return self.op(scope, "LayerNormalization", x, self.weight(module + "/gamma"), self.weight(module + "/beta"), axis=-1,
                       epsilon=1e-5)

    def heads(self, scope, x):
        shaped = self.op(scope, "Reshape", x, self.constant(scope, [0, -1, HEADS, HEAD], np.int64))
        return self.op(scope, "Transpose", shaped, perm=[0, 2, 1, 3])

    def attend(self, scope, module, query, key, value, mask=None):
        scaled = self.op(scope, "Mul", query, self.constant(scope, 1 / math.sqrt(HEAD)))
        scores = self.op(scope, "MatMul", scaled, self.op(scope, "Transpose", key, perm=[0, 1, 3, 2]))
        if mask:
            scores = self.op(scope, "Add", scores, mask)
        context = self.op(scope, "MatMul", self.op(scope, "Softmax", scores, axis=-1), value)
        joined = self.op(scope, "Transpose", context, perm=[0, 2, 1, 3])
        joined = self.op(scope, "Reshape", joined, self.constant(scope, [0, -1, WIDTH], np.int64))
        return self.projection(scope, module, joined)

    def feed_forward(self, scope, module, x):
        inner = self.gelu(scope, self.projection(scope, module + "/linear_0", self.norm(scope, module + "/layer_norm", x)))
        return self.op(scope, "Add", x, self.projection(scope, module + "/linear_1", inner))

    def model(self, inputs, outputs):
        graph = helper.make_graph(self.nodes, "main_graph", inputs, outputs, self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8,
                                  producer_name="transmuter assemble_whisper")
        onnx.checker.check_model(model, full_check=True)
        return model


def third(index):
    return slice(index * WIDTH, (index + 1) * WIDTH)


def encoder(weights):
    g = Graph(weights)
    x = "input_features"
    for index, stride in ((1, 1), (2, 2)):
        module = f"encoder/conv{index}"
        x = g.op(f"/conv{index}", "Conv", x, g.weight(module + "/weight"), g.weight(module + "/bias"), kernel_shape=[3],
                 pads=[1, 1], strides=[stride])
        x = g.gelu(f"/conv{index}", x)
    x = g.op("", "Add", g.op("", "Transpose", x, perm=[0, 2, 1]), g.weight("encoder/position_encodings/encodings"))
    for index in range(LAYERS):
        scope, module = f"/layers.{index}", f"encoder/layer_{index}"
        attention = module + "/self_attention"
        normed = g.norm(scope, attention + "/layer_norm", x)
        query, key, value = (g.heads(scope, g.projection(scope, attention + "/linear_0", normed, third(i))) for i in range(3))
        x = g.op(scope, "Add", x, g.attend(scope, attention + "/linear_1", query, key, value))
        x = g.feed_forward(scope, module + "/ffn", x)
    g.norm("", "encoder/layer_norm", x)
    g.nodes[-1].output[0] = "last_hidden_state"
    return g.model([helper.make_tensor_value_info("input_features", TensorProto.FLOAT, ["batch_size", MELS, FRAMES])],
                   [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch_size", FRAMES // 2, WIDTH])])


def once(g, scope, module, index, past):
    """Key (1st half) or value of the sound: the past if there is one, else made of the encoder's states."""
    made = Graph(g.weights)
    made.used = g.used
    states = made.heads(scope, made.projection(scope, module, "encoder_hidden_states", third(index)))
    g.initializers += made.initializers
    kept = helper.make_node("Identity", [past], [past + "_kept"])
    shape = ["batch_size", HEADS, "encoder_length", HEAD]
    branches = [helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)])
                for nodes, name, output in (([kept], "kept", past + "_kept"), (made.nodes, "made", states))]
    return g.op(scope, "If", "use_cache_branch", then_branch=branches[0], else_branch=branches[1])


def decoder(weights):
    g = Graph(weights)
    past_length = g.op("", "Shape", "past_key_values.0.decoder.key", start=2, end=3)
    length = g.op("", "Shape", "input_ids", start=1, end=2)
    total = g.op("", "Add", past_length, length)
    scalar = [g.op("", "Squeeze", value) for value in (past_length, total)]
    zero, one = (g.constant("", value, np.int64) for value in (0, 1))
    places = g.op("", "Range", scalar[0], scalar[1], one)
    later = g.op("", "Greater", g.op("", "Range", zero, scalar[1], one),
                 g.op("", "Unsqueeze", places, g.constant("", [1], np.int64)))
    mask = g.op("", "Where", later, g.constant("", np.finfo(np.float32).min), g.constant("", 0))

    words = g.op("/embed_tokens", "Gather", g.weight("decoder/embeddings/weight"), "input_ids")
    x = g.op("", "Add", words, g.op("", "Gather", g.weight("decoder/position_encodings/encodings"), places))
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch_size", "decoder_length"]),
              helper.make_tensor_value_info("encoder_hidden_states", TensorProto.FLOAT,
                                            ["batch_size", "encoder_length", WIDTH])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch_size", "decoder_length", VOCABULARY])]

    def cache(index, side, part, past_extent, present_extent, value):
        g.nodes.append(helper.make_node("Identity", [value], [f"present.{index}.{side}.{part}"]))
        for to, name, extent in ((inputs, "past_key_values", past_extent), (outputs, "present", present_extent)):
            to.append(helper.make_tensor_value_info(f"{name}.{index}.{side}.{part}", TensorProto.FLOAT,
                                                    ["batch_size", HEADS, extent, HEAD]))

    for index in range(LAYERS):
        scope, module = f"/layers.{index}", f"decoder/layer_{index}"
        own, cross = module + "/self_attention", module + "/attention"
        normed = g.norm(scope, own + "/layer_norm", x)
        query, key, value = (g.heads(scope, g.projection(scope, own + "/linear_0", normed, third(i))) for i in range(3))
        key, value = (g.op(scope, "Concat", f"past_key_values.{index}.decoder.{part}", new, axis=2)
                      for part, new in (("key", key), ("value", value)))
        x = g.op(scope, "Add", x, g.attend(scope, own + "/linear_1", query, key, value, mask))
        normed = g.norm(scope, cross + "/layer_norm", x)
        query = g.heads(scope, g.projection(scope, cross + "/linear_0", normed))
        heard = [once(g, scope, cross + "/linear_1", i, f"past_key_values.{index}.encoder.{part}")
                 for i, part in enumerate(("key", "value"))]
        x = g.op(scope, "Add", x, g.attend(scope, cross + "/linear_2", query, *heard))
        x = g.feed_forward(scope, module + "/ffn", x)
        for part, new in (("key", key), ("value", value)):
            cache(index, "decoder", part, "past_decoder_length", "past_decoder_length + decoder_length", new)
        for part, states in zip(("key", "value"), heard):
            cache(index, "encoder", part, "encoder_length_out", "encoder_length_out", states)
    x = g.norm("", "decoder/layer_norm", x)
    table = g.op("", "Transpose", "decoder/embeddings/weight", perm=[1, 0])
    g.nodes.append(helper.make_node("MatMul", [x, table], ["logits"], "/proj_out/MatMul"))
    inputs.append(helper.make_tensor_value_info("use_cache_branch", TensorProto.BOOL, [1]))
    return g.model(inputs, outputs)


def assemble(source, config, folder):
    weights = read_weights(source)
    config = json.loads(pathlib.Path(config).read_text())
    # Words for noises and speakers; an end at once.
    suppressed = {"suppress_tokens": config["suppress_ids"], "begin_suppress_tokens": config["suppress_ids_begin"]}
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(encoder(weights), folder / "encoder_model.onnx")
    onnx.save(decoder(weights), folder / "decoder_model_merged.onnx")
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR) + "\n")
    (folder / "generation_config.json").write_text(json.dumps(GENERATION | suppressed) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    assemble(*sys.argv[1:])
