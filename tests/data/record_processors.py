#!/usr/bin/env python3
"""Records what the score processors of Hugging Face transformers make of a few scores: references for the unit tests.

    record_processors.py tests/data/generation/processors.json        needs torch and transformers
"""
import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers.generation import logits_process as lp

VOCABULARY = 48  # a watermark by selfhash looks at the 40 best
EOS = torch.tensor([2, 3])
IDS = [5, 9, 4, 9, 4, 7, 5, 9]
ENCODER = [11, 4, 9, 12, 9, 6]


def cases():
    yield "repetition_penalty", dict(penalty=1.3), lp.RepetitionPenaltyLogitsProcessor(1.3)
    yield "encoder_repetition_penalty", dict(penalty=1.7), lp.EncoderRepetitionPenaltyLogitsProcessor(
        1.7, torch.tensor([ENCODER]))
    for n in (1, 2, 3):
        yield "no_repeat_ngram", dict(n=n), lp.NoRepeatNGramLogitsProcessor(n)
        yield "encoder_no_repeat_ngram", dict(n=n), lp.EncoderNoRepeatNGramLogitsProcessor(n, torch.tensor([ENCODER]))
    bias = [[[4], 1.5], [[9, 4], -2.0], [[5, 9, 6], 3.0], [[7, 9, 8], 4.0]]
    yield "sequence_bias", dict(bias=bias), lp.SequenceBiasLogitsProcessor(bias)
    words = [[4], [9, 10], [5, 9, 6], [2], [7, 7]]
    yield "bad_words", dict(words=words), lp.NoBadWordsLogitsProcessor(words, EOS)
    yield "min_length", dict(least=9), lp.MinLengthLogitsProcessor(9, EOS)
    yield "min_length", dict(least=8), lp.MinLengthLogitsProcessor(8, EOS)
    yield "forced_eos", dict(longest=9), lp.ForcedEOSTokenLogitsProcessor(9, EOS)
    yield "forced_eos", dict(longest=10), lp.ForcedEOSTokenLogitsProcessor(10, EOS)
    yield "decay", dict(start=2, factor=1.2, prompt=4), lp.ExponentialDecayLengthPenalty((2, 1.2), EOS, 4)
    yield "suppress", dict(ids=[1, 6, 400]), lp.SuppressTokensLogitsProcessor([1, 6, 400])
    yield "normalize", {}, lp.LogitNormalization()
    for keep in (1, 3):
        for k in (1, 5, 100):
            yield "top_k", dict(value=k, keep=keep), lp.TopKLogitsWarper(k, min_tokens_to_keep=keep)
        for p in (0.1, 0.5, 0.9, 0.99):
            yield "top_p", dict(value=p, keep=keep), lp.TopPLogitsWarper(p, min_tokens_to_keep=keep)
        for p in (0.05, 0.3, 1.0):
            yield "min_p", dict(value=p, keep=keep), lp.MinPLogitsWarper(p, min_tokens_to_keep=keep)
        for p in (0.2, 0.6, 0.95):
            yield "typical_p", dict(value=p, keep=keep), lp.TypicalLogitsWarper(p, min_tokens_to_keep=keep)
        for p in (0.01, 0.06, 0.5):
            yield "epsilon", dict(value=p, keep=keep), lp.EpsilonLogitsWarper(p, min_tokens_to_keep=keep)
            yield "eta", dict(value=p, keep=keep), lp.EtaLogitsWarper(p, min_tokens_to_keep=keep, device="cpu")
    for h in (0.2, 0.5, 0.9):
        yield "top_h", dict(value=h), lp.TopHLogitsWarper(h)
    yield "watermark", dict(scheme="lefthash", ratio=0.25, bias=2.5, key=15485863, width=1), lp.WatermarkLogitsProcessor(
        VOCABULARY, "cpu", 0.25, 2.5, 15485863, "lefthash", 1)
    yield "watermark", dict(scheme="selfhash", ratio=0.4, bias=1.5, key=15485863, width=3), lp.WatermarkLogitsProcessor(
        VOCABULARY, "cpu", 0.4, 1.5, 15485863, "selfhash", 3)


def listed(scores):
    return [None if not np.isfinite(s) else round(float(s), 6) for s in scores]


def main(target):
    records = []
    rng = np.random.default_rng(7)
    for name, settings, processor in cases():
        scores = np.round(rng.normal(0, 2, VOCABULARY), 3).astype(np.float32)
        after = processor(torch.tensor([IDS]), torch.tensor(scores[None]))[0].numpy()
        records.append({"name": name, **settings, "scores": listed(scores), "after": listed(after)})
    lines = ",\n".join(json.dumps(r, separators=(",", ":")) for r in records)
    target.write_text('{"ids":%s,"encoder":%s,"eos":%s,"cases":[\n%s\n]}\n' % (IDS, ENCODER, EOS.tolist(), lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
