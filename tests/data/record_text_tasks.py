#!/usr/bin/env python3
"""Writes text_tasks/: tiny models for the text tasks, and what Hugging Face's own pipelines say with them.

    record_text_tasks.py              models, and all answers but those of questions (transformers 5, sentence-transformers)
    record_text_tasks.py --questions  the answers to questions (transformers 4: its later versions have no such pipeline)

Needs torch, transformers, sentence-transformers and onnx. Weights are random, but large enough for clear scores. Beside
each model lies recorded.json: a list of {input, options, expected}.
"""
import argparse
import json
import pathlib
import shutil
import warnings

import onnx
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).parent / "text_tasks"
LIMIT = 48  # tokens
CORPUS = [
    "The quick brown fox jumps over the lazy dog near the river bank in Berlin.",
    "Angela Merkel lived in Berlin and worked with the European Union in Brussels.",
    "Paris is the capital of France; many people visit the Eiffel Tower every year.",
    "I loved this film, it was wonderful. This was the worst book I have ever read!",
    "John Smith works at Acme Corporation in New York City since 2019.",
    "What is the capital of France? Where does John live? Who wrote the book?",
] * 3
TEXTS = [
    "John Smith lives in New York City, near the river.",
    "Wonderful film!",
    "",
    "Café naïve 日本語 😀 in Berlin — “quoted”",
    "antidisestablishmentarianism and unworkable, overlived Parisians",
    "the",
    " ".join(CORPUS[:3]),
]


def word_piece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=220, special_tokens=special))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=LIMIT, pad_token="[PAD]",
                                   unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
                                   model_input_names=["input_ids", "token_type_ids", "attention_mask"])


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=420, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True,
                                                            add_prefix_space=False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=LIMIT, pad_token="<pad>",
                                   unk_token="<unk>", cls_token="<s>", sep_token="</s>", bos_token="<s>",
                                   eos_token="</s>", mask_token="<mask>")


def save(name, kind, tokenizer, outputs, seed, **config):
    """A folder with the model as PyTorch has it (removed later) and as ONNX."""
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(seed)
    settings = BertConfig(vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                          intermediate_size=24, max_position_embeddings=LIMIT, initializer_range=0.6,
                          pad_token_id=tokenizer.pad_token_id, **config)
    settings._attn_implementation = "eager"
    model = kind(settings).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    names = ["input_ids", "attention_mask", "token_type_ids"]
    example = tokenizer(["the quick fox", "a"], padding=True, return_tensors="pt")
    inputs = tuple(example.get(name, torch.zeros_like(example["input_ids"])) for name in names)

    class Flat(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask, token_type_ids):
            result = self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
            return tuple(result[output] for output in outputs)

    axes = {name: {0: "batch", 1: "sequence"} for name in names}
    axes.update({output: {0: "batch"} if output == "logits" and "Sequence" in kind.__name__ else
                 {0: "batch", 1: "sequence"} for output in outputs})
    torch.onnx.export(Flat(), inputs, folder / "model.onnx", input_names=names, output_names=outputs,
                      dynamic_axes=axes, opset_version=17, dynamo=False)
    graph = onnx.load(folder / "model.onnx")
    for node in graph.graph.node:
        node.doc_string = ""
    onnx.save(graph, folder / "model.onnx")
    return folder


def record(folder, cases):
    (folder / "recorded.json").write_text(json.dumps(cases, ensure_ascii=False, indent=1, default=float) + "\n")
    for leftover in ("model.safetensors", "training_args.bin"):
        (folder / leftover).unlink(missing_ok=True)


def numbers(value):
    """Without NumPy's types."""
    return json.loads(json.dumps(value, default=float))


def classification(tokenizer):
    pairs = [(TEXTS[0], "Where does John live?"), ("", "the book"), (TEXTS[6], TEXTS[5])]
    models_ = {
        "classify_single": dict(id2label={0: "bad", 1: "so-so", 2: "good"}),
        "classify_multi": dict(id2label={0: "a", 1: "b", 2: "c", 3: "d"},
                               problem_type="multi_label_classification"),
        "classify_regression": dict(id2label={0: "LABEL_0"}, problem_type="regression"),
    }
    for seed, (name, config) in enumerate(models_.items()):
        folder = save(name, transformers.BertForSequenceClassification, tokenizer, ["logits"], seed, **config)
        classify = transformers.pipeline("text-classification", str(folder))
        cases = []
        for function in (None, "sigmoid", "none"):
            options = dict(function_to_apply=function) if function else {}
            for text in TEXTS:
                expected = classify(text, top_k=None, truncation=True, **options)
                cases.append(dict(input=text, options=dict(function=function or ""), expected=numbers(expected)))
        for text, second in pairs:
            expected = classify(dict(text=text, text_pair=second), top_k=None, truncation=True)
            cases.append(dict(input=text, pair=second, options={}, expected=numbers(expected)))
        record(folder, cases)


def entities(name, tokenizer, seed):
    labels = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "MISC"]
    folder = save(name, transformers.BertForTokenClassification, tokenizer, ["logits"], seed,
                  id2label=dict(enumerate(labels)), label2id={label: i for i, label in enumerate(labels)})
    cases = []
    for strategy in ("none", "simple", "first", "max", "average"):
        tag = transformers.pipeline("token-classification", str(folder), aggregation_strategy=strategy)
        for text in TEXTS:
            if text:
                expected = tag(text)
                cases.append(dict(input=text, options=dict(aggregation=strategy), expected=numbers(expected)))
    tag = transformers.pipeline("token-classification", str(folder), aggregation_strategy="simple",
                                ignore_labels=["PER"])
    cases.append(dict(input=TEXTS[0], options=dict(aggregation="simple", ignore=["PER"]), expected=numbers(tag(TEXTS[0]))))
    record(folder, cases)


def masks(tokenizer):
    folder = save("fill_mask", transformers.BertForMaskedLM, tokenizer, ["logits"], 11)
    fill = transformers.pipeline("fill-mask", str(folder))
    texts = ["the [MASK] fox jumps", "[MASK]", "Paris is the [MASK] of [MASK] .", "the dog [MASK] in berlin, near"]
    cases = [dict(input=text, options={}, expected=numbers(fill(text))) for text in texts]
    targets = ["fox", "river", "parisian", "fox"]
    cases.append(dict(input=texts[0], options=dict(targets=targets, top_k=4),
                      expected=numbers(fill(texts[0], targets=targets, top_k=4))))
    record(folder, cases)


def zero_shot(tokenizer):
    labels = {0: "contradiction", 1: "neutral", 2: "Entailment"}
    folder = save("zero_shot", transformers.BertForSequenceClassification, tokenizer, ["logits"], 13,
                  id2label=labels, label2id={label: i for i, label in labels.items()})
    classify = transformers.pipeline("zero-shot-classification", str(folder))
    names = ["film", "travel", "work"]
    cases = []
    for text in TEXTS:
        if not text:
            continue
        for options in ({}, dict(multi_label=True), dict(hypothesis_template="It is about {}, yes.")):
            expected = classify(text, candidate_labels=names, **options)
            cases.append(dict(input=text, labels=names, options=options, expected=numbers(expected)))
        cases.append(dict(input=text, labels=["film"], options={}, expected=numbers(classify(text, ["film"]))))
    record(folder, cases)


def ranking(tokenizer):
    from sentence_transformers import CrossEncoder
    folder = save("rerank", transformers.BertForSequenceClassification, tokenizer, ["logits"], 17,
                  id2label={0: "LABEL_0"})
    encoder = CrossEncoder(str(folder), device="cpu", max_length=LIMIT)
    query = "Where does John live?"
    expected = encoder.rank(query, TEXTS, return_documents=False)
    record(folder, [dict(input=query, documents=TEXTS, options={}, expected=numbers(expected))])


def embeddings(tokenizer):
    from sentence_transformers import SentenceTransformer
    try:
        from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
    except ImportError:
        from sentence_transformers.models import Dense, Normalize, Pooling, Transformer
    layouts = {
        "embed_mean": (["mean"], False, True),
        "embed_dense": (["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"], True, False),
    }
    for seed, (name, (modes, with_dense, include_prompt)) in enumerate(layouts.items()):
        folder = save(name, transformers.BertModel, tokenizer, ["last_hidden_state"], 19 + seed)
        graph = (folder / "model.onnx").read_bytes()
        transformer = Transformer(str(folder), max_seq_length=32)
        pooling = Pooling(16, pooling_mode=modes, include_prompt=include_prompt)
        parts = [transformer, pooling]
        if with_dense:
            torch.manual_seed(3)
            parts.append(Dense(in_features=16 * len(modes), out_features=8))
        parts.append(Normalize())
        prompts = {"query": "query: ", "document": "the document: "}
        model = SentenceTransformer(modules=parts, prompts=prompts, device="cpu",
                                    default_prompt_name="document" if with_dense else None)
        shutil.rmtree(folder)
        model.save(str(folder), create_model_card=False)
        (folder / "model.onnx").write_bytes(graph)
        cases = [dict(input=TEXTS, options={}, expected=model.encode(TEXTS).tolist()),
                 dict(input=TEXTS, options=dict(role="query"), expected=model.encode_query(TEXTS).tolist()),
                 dict(input=TEXTS, options=dict(role="document"), expected=model.encode_document(TEXTS).tolist()),
                 dict(input=TEXTS, options=dict(prompt="on the ", truncate_dim=5, normalize=True),
                      expected=model.encode(TEXTS, prompt="on the ", truncate_dim=5,
                                            normalize_embeddings=True).tolist())]
        record(folder, cases)


def make_answering(tokenizer):
    save("answer", transformers.BertForQuestionAnswering, tokenizer, ["start_logits", "end_logits"], 23)


def questions():
    folder = HERE / "answer"
    # The later version's name of the tokenizer's class means nothing to the earlier.
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **{
        name: value for name, value in json.loads((folder / "tokenizer_config.json").read_text()).items()
        if name not in ("tokenizer_class", "backend")})
    answer = transformers.pipeline("question-answering", str(folder), tokenizer=tokenizer)
    question = "Where does John live?"
    cases = []
    for passage in [TEXTS[0], TEXTS[3], TEXTS[6], " ".join(CORPUS)]:
        for options in ({}, dict(top_k=4), dict(handle_impossible_answer=True, top_k=2), dict(align_to_words=False),
                        dict(max_answer_len=3), dict(max_seq_len=30, doc_stride=8)):
            expected = answer(question=question, context=passage, **options)
            cases.append(dict(input=question, passage=passage, options=options, expected=numbers(expected)))
    record(folder, cases)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", action="store_true")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    HERE.mkdir(exist_ok=True)
    if arguments.questions:
        questions()
        return
    words, bytes_ = word_piece(), byte_level()
    classification(words)
    entities("ner_words", words, 5)
    entities("ner_bytes", bytes_, 7)
    masks(words)
    zero_shot(words)
    ranking(words)
    embeddings(words)
    make_answering(words)


if __name__ == "__main__":
    main()
