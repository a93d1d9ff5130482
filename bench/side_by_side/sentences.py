#!/usr/bin/env python3
"""1,000 sentences of mixed length through MiniLM: sentences.py PROGRAM FOLDER [--threads N] [--rounds N].

`transmuter embed` beside what sentence-transformers does with its ONNX backend (sorted by length, batches of 32, padded to
the longest, ONNX Runtime, mean, unit length; by onnxruntime and tokenizers alone, so without that package's own
overhead), alternating. Each time is that of 1,000 sentences less that of one, so neither counts loading. The last lines are
ours against theirs by the best of all rounds: by the clock, and by CPU time, which other programs on the machine change
less (with one thread; ONNX Runtime's threads spin).
"""
import argparse
import pathlib
import random
import resource
import subprocess
import tempfile
import time

import numpy as np
import tokenizers

from bench_ort import open_session

COUNT, BATCH, LIMIT = 1000, 32, 256


def sentences():
    draw = random.Random(7)
    words = ("the quick brown fox jumps over lazy dog in a town near river while people read books about history of "
             "science and music that changed how cities grew between wars").split()
    lengths = [max(2, min(180, round(draw.lognormvariate(2.8, 0.7)))) for _ in range(COUNT)]
    return [" ".join(draw.choice(words) for _ in range(length)) for length in lengths]


class Theirs:
    def __init__(self, folder, threads):
        self.session = open_session(str(folder / "model.onnx"), threads, "all")
        self.inputs = {value.name for value in self.session.get_inputs()}
        self.tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(LIMIT)
        self.tokenizer.enable_padding()

    def __call__(self, texts):
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        out = np.zeros((len(texts), 384), np.float32)
        for start in range(0, len(order), BATCH):
            rows = order[start:start + BATCH]
            encoded = self.tokenizer.encode_batch([texts[i] for i in rows])
            feed = {"input_ids": np.array([e.ids for e in encoded]),
                    "attention_mask": np.array([e.attention_mask for e in encoded]),
                    "token_type_ids": np.array([e.type_ids for e in encoded])}
            hidden = self.session.run(None, {k: v for k, v in feed.items() if k in self.inputs})[0]
            mask = feed["attention_mask"][..., None].astype(np.float32)
            mean = (hidden * mask).sum(1) / mask.sum(1)
            out[rows] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return out


def cpu_time():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def timed(call, *arguments):
    """Seconds by the clock and of the CPU, and the result."""
    start, cpu = time.perf_counter(), cpu_time()
    result = call(*arguments)
    return np.array([time.perf_counter() - start, cpu_time() - cpu]), result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-tokens", type=int, default=512)
    arguments = parser.parse_args()
    texts = sentences()
    theirs = Theirs(arguments.folder, arguments.threads)
    theirs(texts[:BATCH])
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        (work / "all.txt").write_text("\n".join(texts) + "\n")
        (work / "one.txt").write_text(texts[0] + "\n")

        def ours(name):
            subprocess.run([arguments.program, "embed", arguments.folder, work / name, "--output", work / "out.npy",
                            "--threads", str(arguments.threads), "--batch-tokens", str(arguments.batch_tokens)], check=True)
            return np.load(work / "out.npy")

        best_ours = best_theirs = np.array([np.inf, np.inf])
        for _ in range(arguments.rounds):
            start, _ = timed(ours, "one.txt")
            whole, vectors = timed(ours, "all.txt")
            seconds, expected = timed(theirs, texts)
            best_ours, best_theirs = np.minimum(best_ours, whole - start), np.minimum(best_theirs, seconds)
            print(f"ours {(whole - start)[0]:.2f} s, theirs {seconds[0]:.2f} s, "
                  f"largest difference {np.abs(vectors - expected).max():.1e}")
        for name, mine, other in zip(("clock", "CPU"), best_ours, best_theirs):
            print(f"{name}: {COUNT / mine:.0f} against {COUNT / other:.0f} sentences a second: {other / mine:.2f} x")


if __name__ == "__main__":
    main()
