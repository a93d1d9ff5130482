#!/usr/bin/env python3
"""Records what the pipelines of Hugging Face transformers write, texts in and texts out, with decoders of the text zoo.

    record_text_generation.py CASES TARGET            text-generation (transformers 5)
    record_text_generation.py CASES TARGET --rewrite  summarization and translation (transformers 4: later ones have none)

TARGET is tests/data/text_generation: tokenizer.json and its configuration are made there, texts.json and rewritten.json hold
the records. Needs what record_generation.py needs, which runs the models.
"""
import argparse
import json
import pathlib
import warnings

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from record_generation import EOS, PAD, wrapped

CORPUS = ["Sphinx of black quartz, judge my vow! 0123456789 (yes) [no] {maybe} 'quoted' \"twice\" - a_b = c * d + e / f; go: http",
          "the quick brown fox jumps over the lazy dog near the river in Berlin .", "John lives in New York City , he works .",
          "what is the capital of France ? Paris is , and the tower is there .", "a café — naïve — costs 3 € ; 日本 😀"] * 4
TEXTS = ["the quick fox", "What is the capital of France?", "café 日本 😀", "the river  in\nBerlin is", "a"]
TEMPLATE = ("{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>\n{% endfor %}"
            "{% if add_generation_prompt %}<s>assistant:{% endif %}")
DECODERS = ["gpt2_past", "llama_past", "qwen2_past", "bloom_past"]
SETTINGS = [dict(max_new_tokens=24), dict(max_new_tokens=12, num_beams=3), dict(max_new_tokens=16, repetition_penalty=1.4),
            dict(max_new_tokens=10, min_new_tokens=10, no_repeat_ngram_size=2)]


def make_tokenizer(target):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=200, special_tokens=["<s>", "<pad>", "</s>", "<unk>"]))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)])
    whole = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>",
                                    unk_token="<unk>", padding_side="left", clean_up_tokenization_spaces=False)
    assert (whole.pad_token_id, whole.eos_token_id) == (PAD, EOS) and len(whole) <= 200, len(whole)
    whole.chat_template = TEMPLATE
    whole.backend_tokenizer.save(str(target / "tokenizer.json"))
    return whole


def prepared(cases, decoder, encoder=None):
    model = wrapped(cases, decoder, encoder, None, "zoo_text")
    model.eval()
    return model


def settings(**more):
    return transformers.GenerationConfig(eos_token_id=EOS, pad_token_id=PAD, use_cache=False, do_sample=False, **more)


def text_generation(cases, target):
    tokenizer = make_tokenizer(target)
    records = []
    for name in DECODERS:
        model = prepared(cases, name)
        write = transformers.pipeline("text-generation", model=model, tokenizer=tokenizer, device="cpu")
        for given in SETTINGS:
            for text in TEXTS:
                answer = write(text, generation_config=settings(**given))[0]["generated_text"]
                assert answer.startswith(text), (answer, text)
                records.append(dict(decoder=name, text=text, settings=given, expected=answer[len(text):]))
        batch = write(TEXTS, generation_config=settings(max_new_tokens=16), batch_size=len(TEXTS))
        records.append(dict(decoder=name, texts=TEXTS, settings=dict(max_new_tokens=16),
                            expected=[a[0]["generated_text"][len(t):] for a, t in zip(batch, TEXTS)]))
        messages = [{"role": "user", "content": "Where is the river?"}]
        chat = write(messages, generation_config=settings(max_new_tokens=12))[0]["generated_text"]
        records.append(dict(decoder=name, messages=messages, settings=dict(max_new_tokens=12),
                            expected=chat[-1]["content"]))
    (target / "texts.json").write_text(json.dumps(dict(template=TEMPLATE, records=records), ensure_ascii=False, indent=0) + "\n")


def rewriting(cases, target):
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(target / "tokenizer.json"), bos_token="<s>", eos_token="</s>",
                                        pad_token="<pad>", unk_token="<unk>", model_input_names=["input_ids", "attention_mask"],
                                        clean_up_tokenization_spaces=False)
    records = []
    for name in ("bart", "t5"):
        for task, field, config in (
                ("summarization", "summary_text", dict(num_beams=1, max_length=21)),
                ("summarization", "summary_text", dict(num_beams=4, max_length=16, length_penalty=2.0)),
                ("translation_en_to_de", "translation_text", dict(num_beams=2, max_length=18))):
            model = prepared(cases, f"{name}_merged", f"{name}_encoder")
            prefix = "translate : " if task.startswith("translation") else "the "
            model.config.task_specific_params = {task: {"prefix": prefix, **config}}
            model.config.prefix, model.config.vocab_size = None, 200
            model.generation_config = settings(decoder_start_token_id=EOS, **config)
            rewrite = transformers.pipeline(task, model=model, tokenizer=tokenizer, device="cpu")
            expected = [rewrite(text)[0][field] for text in TEXTS]
            batch = [answer[field] for answer in rewrite(TEXTS, batch_size=len(TEXTS))]
            records.append(dict(model=name, task=task, config=dict(
                is_encoder_decoder=True, eos_token_id=EOS, pad_token_id=PAD, decoder_start_token_id=EOS,
                task_specific_params={task: {"prefix": prefix, **config}}),
                texts=TEXTS, expected=expected, batch=batch))
    (target / "rewritten.json").write_text(json.dumps(records, ensure_ascii=False, indent=0) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("--rewrite", action="store_true")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    torch.set_num_threads(1)
    (rewriting if arguments.rewrite else text_generation)(arguments.cases, arguments.target)


if __name__ == "__main__":
    main()
