#!/usr/bin/env python3
"""Greedy text by `transmuter generate` and by a loop around ONNX Runtime, alternating: tokens a second, CPU time, and
that both write the same.

    generation.py --transmuter PROGRAM MODEL.onnx [--prompt 32 --tokens 64 --rounds 4 --threads 1]

The model is a decoder with past_key_values.* and present.*; its tokenizer is made up: the words "t0", "t1", ...
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort

from bench_ort import open_session

HEAD = 64  # width of a head where the model's caches name it by a symbol
NO_END = "eos_token_id=[]"  # texts of one length


def folder_for(model, into):
    """A folder that `transmuter generate` takes, and the size of the vocabulary."""
    graph = onnx.load(model, load_external_data=False)
    words = next(o for o in graph.graph.output if o.name == "logits").type.tensor_type.shape.dim[-1].dim_value
    for path in [model, *model.parent.glob(model.name + "*"), *model.parent.glob(model.stem + "*data*")]:
        link = into / ("model.onnx" if path == model else path.name)
        if not link.exists():
            link.symlink_to(path.resolve())
    vocabulary = {f"t{i}": i for i in range(words)}
    (into / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "t0"}}))
    (into / "config.json").write_text(json.dumps({"head_dim": HEAD}))
    return words


class Loop:
    """What people write around ONNX Runtime: caches as its own values, from outputs to inputs."""

    def __init__(self, model, threads):
        self.run = open_session(str(model), threads, "all")
        self.inputs = self.run.get_inputs()
        self.outputs = [o.name for o in self.run.get_outputs()]

    def write(self, prompt, count):
        caches = {i.name: ort.OrtValue.ortvalue_from_numpy(np.zeros(
            [1, *(d if isinstance(d, int) else 0 if "past" in d else HEAD for d in i.shape[1:])],
            np.float16 if "float16" in i.type else np.float32)) for i in self.inputs if i.name.startswith("past")}
        ids, before, new, at = np.array([prompt]), 0, [], []
        while len(new) < count:
            feed = dict(caches)
            total = before + ids.shape[1]
            for i in self.inputs:
                if i.name == "input_ids":
                    feed[i.name] = ort.OrtValue.ortvalue_from_numpy(ids.astype(np.int64))
                elif i.name == "attention_mask":
                    feed[i.name] = ort.OrtValue.ortvalue_from_numpy(np.ones([1, total], np.int64))
                elif i.name == "position_ids":
                    feed[i.name] = ort.OrtValue.ortvalue_from_numpy(np.arange(before, total)[None].astype(np.int64))
            values = dict(zip(self.outputs, self.run.run_with_ort_values(self.outputs, feed)))
            caches = {name: values[re.sub(r"^past(_key_values)?", "present", name)] for name in caches}
            new.append(int(values["logits"].numpy()[0, -1].argmax()))
            at.append((time.perf_counter(), time.process_time()))
            ids, before = np.array([[new[-1]]]), total
        more = count - 1
        return new, *((at[-1][i] - at[0][i]) * 1e3 / more for i in (0, 1))


def ours(program, folder, prompt, count, threads):
    text = " ".join(f"t{i}" for i in prompt)
    command = [program, "generate", folder, text, "-n", str(count), "--set", NO_END, "--json", "--stats"]
    result = subprocess.run([*command, "--threads", str(threads)], capture_output=True, text=True, check=True)
    ids = [int(word[1:]) for word in json.loads(result.stdout)[0]["text"].split()]
    wall, cpu = re.search(r"then ([\d.]+) ms each .*, ([\d.]+) ms of CPU", result.stderr).groups()
    return ids, float(wall), float(cpu)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--transmuter", required=True)
    for name, value in (("prompt", 32), ("tokens", 64), ("rounds", 4), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        words = folder_for(args.model.resolve(), pathlib.Path(folder))
        prompt = np.random.default_rng(0).integers(1, words, args.prompt).tolist()
        loop, rows = Loop(args.model, args.threads), []
        for _ in range(args.rounds):
            theirs, wall, cpu = loop.write(prompt, args.tokens)
            own, own_wall, own_cpu = ours(args.transmuter, folder, prompt, args.tokens, args.threads)
            same = next((i for i, (a, b) in enumerate(zip(own, theirs)) if a != b), len(theirs))
            rows.append((wall, cpu, own_wall, own_cpu, same))
    wall, cpu, own_wall, own_cpu, same = (statistics.median(column) for column in zip(*rows))
    print(f"{args.model.stem}: ONNX Runtime {1e3 / wall:.1f} tokens/s ({cpu:.2f} ms CPU each), transmuter "
          f"{1e3 / own_wall:.1f} ({own_cpu:.2f}): ratio {own_wall / wall:.2f}, of CPU time {own_cpu / cpu:.2f}; "
          f"first {same:.0f} of {args.tokens} tokens the same")


if __name__ == "__main__":
    main()
