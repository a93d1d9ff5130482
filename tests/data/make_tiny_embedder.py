#!/usr/bin/env python3
"""Writes tiny_embedder/model.onnx: an "encoder" whose vector of token i is (i, 1, 0), plus (0, 0, type of the token).

Small enough to work out embeddings by hand. `make_tiny_embedder.py` (needs the onnx package) writes it beside this file.
"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TOKENS = 12  # the vocabulary of tiny_embedder/tokenizer.json

tokens = np.array([[i, 1, 0] for i in range(TOKENS)], np.float32)
types = np.array([[0, 0, 0], [0, 0, 1]], np.float32)
nodes = [
    helper.make_node("Gather", ["tokens", "input_ids"], ["token_vectors"]),
    helper.make_node("Gather", ["types", "token_type_ids"], ["type_vectors"]),
    helper.make_node("Add", ["token_vectors", "type_vectors"], ["last_hidden_state"]),
]
names = ("input_ids", "attention_mask", "token_type_ids")
graph = helper.make_graph(
    nodes, "tiny_embedder",
    [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"]) for name in names],
    [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", 3])],
    [numpy_helper.from_array(tokens, "tokens"), numpy_helper.from_array(types, "types")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.checker.check_model(model, full_check=True)
onnx.save(model, pathlib.Path(__file__).parent / "tiny_embedder" / "model.onnx")
