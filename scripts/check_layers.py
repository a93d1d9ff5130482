#!/usr/bin/env python3
"""Checks that includes between the folders of src/ follow the layers (guides/architecture.md); prints each that doesn't.

A folder may include itself, the folders below it and the public headers of its height. The command line sees public
headers only; public headers include no dependency's header.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What each layer may include directly; what those may include comes with them.
BELOW = {
    "base": [],
    "tensor": ["base"],
    "image": ["tensor"],
    "audio": ["tensor"],
    "onnx": ["tensor"],
    "ir": ["tensor"],
    "ops": ["ir", "onnx", "image"],
    "backends": ["ir", "telemetry"],  # the interface: files right in src/backends
    "backends/reference": ["backends"],
    "backends/cpu": ["backends"],
    "backends/pjrt": ["backends"],
    "backends/mlx": ["backends"],
    "backends/registry": ["backends/reference", "backends/cpu", "backends/pjrt"],  # registry.cc: which ones are built
    "runtime": ["ops", "backends"],
    "hub": ["runtime"],
    "text": ["runtime", "hub", "audio"],
    "train": ["runtime"],
    "serve": ["runtime", "text", "hub"],
    "telemetry": ["base"],
}

# The layer from which on a public header may be included; "" = everywhere. A header not listed here may be included by
# the folder of its own name and above.
PUBLIC = {
    "error.h": "", "tensor.h": "", "value.h": "", "value_spec.h": "", "graph.h": "onnx", "io.h": "runtime", "backend.h": "ir", "model.h": "runtime", "decoder.h": "runtime",
    "tokenizer.h": "text", "chat_template.h": "text", "text_tasks.h": "text", "speech.h": "text", "generation.h": "text", "text_generator.h": "text",
    "transmuter.h": "text",
}

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.MULTILINE)


def reach(layer):
    """The layer and everything below it."""
    found, queue = set(), [layer]
    while queue:
        current = queue.pop()
        if current not in found:
            found.add(current)
            queue += BELOW[current]
    return found


def layer_of(path):
    """The layer of a path below src/, or None."""
    if path.removesuffix(".cc") in BELOW:
        return path.removesuffix(".cc")
    folders = path.split("/")[:-1]
    for depth in (2, 1):
        name = "/".join(folders[:depth])
        if name in BELOW:
            return name
    return None


def fault(layer, included, allowed):
    """Why `layer` may not include this, or None."""
    if included.startswith("transmuter/"):
        header = included.removeprefix("transmuter/")
        floor = PUBLIC.get(header, header.removesuffix(".h"))
        return None if floor == "" or floor in allowed else f"public header of layer {floor}"
    other = layer_of(included)
    return None if other is None or other in allowed else f"layer {other} is not below {layer}"


def sources(folder):
    return sorted(p for p in (ROOT / folder).rglob("*") if p.suffix in (".h", ".cc"))


def main():
    faults = []

    def includes(path):
        text = path.read_text(encoding="utf-8")
        for match in INCLUDE.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, match.group(1), match.group(2)

    def report(path, line, what, why):
        faults.append(f"{path.relative_to(ROOT)}:{line}: {what}: {why}")

    for path in sources("src"):
        layer = layer_of(path.relative_to(ROOT / "src").as_posix())
        if layer is None:
            report(path, 1, "folder", "not in the table of layers")
            continue
        allowed = reach(layer)
        for line, _, included in includes(path):
            if why := fault(layer, included, allowed):
                report(path, line, included, why)
    for path in sources("cli"):
        for line, quote, included in includes(path):
            if quote == '"' and layer_of(included):
                report(path, line, included, "the command line sees the public API only")
    for path in sources("include"):
        for line, quote, included in includes(path):
            ours = included.startswith("transmuter/")
            standard = quote == "<" and "/" not in included and "." not in included
            if not ours and not standard:
                report(path, line, included, "public headers include the standard library and each other only")

    print("\n".join(faults) if faults else "layers: ok")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
