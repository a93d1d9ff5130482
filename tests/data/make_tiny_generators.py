#!/usr/bin/env python3
"""Writes two language models that are small enough to work out what they write by hand (needs the onnx package).

tiny_chat/: the scores of the next word depend on the last one alone (NEXT below); it has a cache of the words so far,
which nothing else reads. tiny_translator/: an encoder and a decoder that gives word i of what the encoder read, in German.
"""
import json
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent
CHAT = """<pad> <s> <|end|> <|user|> <|assistant|> <|system|> <unk> hello hi there friend . good day how are you today ?
       bye see soon world the""".split()
NEXT = {
    "<|assistant|>": {"hi": 4, "hello": 3.5, "good": 3}, "hi": {"there": 4, "friend": 3}, "hello": {"world": 4, "friend": 3},
    "there": {"friend": 4, ".": 3}, "friend": {".": 4, "how": 3}, ".": {"<|end|>": 4, "how": 2}, "how": {"are": 5},
    "are": {"you": 5}, "you": {"today": 3, "?": 2.5}, "today": {"?": 5}, "?": {"<|end|>": 5}, "good": {"day": 5},
    "day": {".": 4}, "world": {".": 4, "today": 3}, "bye": {"see": 4}, "see": {"you": 4}, "<s>": {"the": 3, "hello": 2},
    "the": {"world": 3, "friend": 2},
}
TEMPLATE = ("{{ bos_token }}{% for m in messages %}<|{{ m.role }}|> {{ m.content }} <|end|> {% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}")
PAIRS = [("<pad>", "<pad>"), ("<s>", "<s>"), ("</s>", "</s>"), ("<unk>", "<unk>"), ("the", "die"), ("cat", "Katze"),
         ("sees", "sieht"), ("a", "einen"), ("bird", "Vogel"), (".", ".")]


def save(nodes, inputs, outputs, weights, path):
    def value(name, kind, shape):
        return helper.make_tensor_value_info(name, kind, shape)

    graph = helper.make_graph(nodes, path.stem, [value(*i) for i in inputs], [value(*o) for o in outputs],
                              [numpy_helper.from_array(w, name) for name, w in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def tokenizer(folder, words, special, template=None):
    added = [{"id": i, "content": w, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, w in enumerate(words) if w in special]
    write_json(folder / "tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": template, "decoder": None,
        "model": {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(words)}, "unk_token": "<unk>"}})


def chat():
    folder = HERE / "tiny_chat"
    folder.mkdir(exist_ok=True)
    size = len(CHAT)
    table = np.full((size, size), -8, np.float32) + np.arange(size, dtype=np.float32) * -0.01
    for word, following in NEXT.items():
        for other, score in following.items():
            table[CHAT.index(word), CHAT.index(other)] = score
    save([helper.make_node("Gather", ["table", "input_ids"], ["logits"]),
          helper.make_node("Cast", ["input_ids"], ["words"], to=TensorProto.FLOAT),
          helper.make_node("Unsqueeze", ["words", "axes"], ["rows"]),
          helper.make_node("Concat", ["past_key_values.0.key", "rows"], ["present.0.key"], axis=2)],
         [("input_ids", TensorProto.INT64, ["batch", "sequence"]),
          ("attention_mask", TensorProto.INT64, ["batch", "past + sequence"]),
          ("past_key_values.0.key", TensorProto.FLOAT, ["batch", 1, "past", 1])],
         [("logits", TensorProto.FLOAT, ["batch", "sequence", size]),
          ("present.0.key", TensorProto.FLOAT, ["batch", 1, "past + sequence", 1])],
         {"table": table, "axes": np.array([1, 3], np.int64)}, folder / "model.onnx")
    tokenizer(folder, CHAT, [w for w in CHAT if w.startswith("<")])
    write_json(folder / "tokenizer_config.json", {
        "bos_token": "<s>", "eos_token": "<|end|>", "pad_token": "<pad>", "unk_token": "<unk>", "padding_side": "left",
        "chat_template": TEMPLATE})
    write_json(folder / "generation_config.json",
               {"bos_token_id": 1, "eos_token_id": [2], "pad_token_id": 0, "max_new_tokens": 16})
    write_json(folder / "config.json", {"max_position_embeddings": 64})


def translator():
    folder = HERE / "tiny_translator"
    folder.mkdir(exist_ok=True)
    english, german = [e for e, _ in PAIRS], [g for _, g in PAIRS]
    words = english + [g for g in german if g not in english]
    table = np.zeros((len(words), len(words)), np.float32)
    for e, g in PAIRS:
        table[words.index(e), words.index(g)] = 9
    hidden = ["batch", "encoder_sequence", len(words)]
    save([helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
         [("input_ids", TensorProto.INT64, ["batch", "encoder_sequence"]),
          ("attention_mask", TensorProto.INT64, ["batch", "encoder_sequence"])],
         [("last_hidden_state", TensorProto.FLOAT, hidden)], {"table": table}, folder / "encoder_model.onnx")
    save([helper.make_node("Shape", ["input_ids"], ["length"], start=1),
          helper.make_node("Slice", ["encoder_hidden_states", "zero", "length", "one"], ["logits"])],
         [("input_ids", TensorProto.INT64, ["batch", "sequence"]),
          ("encoder_hidden_states", TensorProto.FLOAT, hidden),
          ("encoder_attention_mask", TensorProto.INT64, ["batch", "encoder_sequence"])],
         [("logits", TensorProto.FLOAT, ["batch", "sequence", len(words)])],
         {"zero": np.array([0], np.int64), "one": np.array([1], np.int64)}, folder / "decoder_model.onnx")
    end = {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}},
                                                    {"SpecialToken": {"id": "</s>", "type_id": 0}}],
           "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
           "special_tokens": {"</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}}
    tokenizer(folder, words, [w for w in words if w.startswith("<")], end)
    write_json(folder / "tokenizer_config.json", {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"})
    write_json(folder / "config.json", {
        "is_encoder_decoder": True, "eos_token_id": 2, "pad_token_id": 0, "decoder_start_token_id": 1,
        "max_length": 40, "task_specific_params": {"summarization": {"prefix": "the ", "max_length": 4}}})


if __name__ == "__main__":
    chat()
    translator()
