#!/usr/bin/env python3
"""The commands that write texts, on models whose answers are known: check_generation.py PROGRAM.

`chat` is also run in a terminal of its own, with Ctrl-C. What decoders write is compared by the unit tests.
"""
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

DATA = pathlib.Path(__file__).parent / "data"
CHAT, TRANSLATOR = DATA / "tiny_chat", DATA / "tiny_translator"


class Checks:
    def __init__(self, program):
        self.program, self.done = program, 0

    def run(self, *arguments, text=None, code=0):
        command = [self.program, *map(str, arguments)]
        result = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
        if result.returncode != code:
            sys.exit(f"{arguments}: exit code {result.returncode}\n{result.stdout}{result.stderr}")
        return result.stdout if code == 0 else result.stderr

    def same(self, found, expected, what):
        if found != expected:
            sys.exit(f"{what}: {found!r} instead of {expected!r}")
        self.done += 1

    def holds(self, text, part, what):
        if part not in text:
            sys.exit(f"{what}: no {part!r} in {text!r}")
        self.done += 1


def generate(check):
    check.same(check.run("generate", CHAT, "<s>"), "the world .\n", "a text")
    check.same(check.run("generate", CHAT, "--chat", "hello", "-n", 2), "hi there\n", "a message")
    check.same(check.run("generate", CHAT, "<s>", "how"), "the world .\nare you today ?\n", "two texts")
    check.same(check.run("generate", CHAT, "-f", "-", text="<s>\nhow\n"), "the world .\nare you today ?\n", "lines")
    check.same(check.run("generate", CHAT, "--chat", "hello", "--stop", "there"), "hi there\n", "a stop string")
    check.same(check.run("generate", CHAT, "<s>", "--set", "suppress_tokens=[22]"), "the friend .\n", "a field")
    answers = json.loads(check.run("generate", CHAT, "--chat", "hello", "--json"))
    check.same(answers[0]["generated_text"][-1], {"role": "assistant", "content": "hi there friend ."}, "JSON")
    check.same(answers[0]["token_summary"], {"input": 5, "output": 5, "padding": 0}, "token summary")
    check.same(answers[0]["finish_reason"], "eos", "finish reason")
    drawn = [check.run("generate", CHAT, "--chat", "hello", "--sample", "--answers", 4, "--seed", seed)
             for seed in (1, 1, 2)]
    check.same(drawn[0], drawn[1], "the same seed")
    if drawn[0] == drawn[2]:
        sys.exit("another seed draws the same")
    beams = json.loads(check.run("generate", CHAT, "<s>", "--beams", 3, "--answers", 2, "--json"))
    check.same(len(beams) == 2 and beams[0]["score"] >= beams[1]["score"], True, "beams")
    with tempfile.TemporaryDirectory() as folder:
        lines = pathlib.Path(folder) / "requests.jsonl"
        lines.write_text('{"text": "<s>"}\n{"messages": [{"role": "user", "content": "hello"}], "seed": 3}\n"how"\n')
        check.same(check.run("generate", CHAT, "-f", lines), "the world .\nhi there friend .\nare you today ?\n",
                   "JSON lines")
        lines.write_text('{"question": 1}\n')
        check.holds(check.run("generate", CHAT, "-f", lines, code=1), "neither", "a wrong line")
    for options in (["--draft", CHAT], ["--lookup", 2]):
        check.same(check.run("generate", CHAT, "--chat", "hello", *options), "hi there friend .\n", str(options))
    guessed = json.loads(check.run("generate", CHAT, "--chat", "hello", "--draft", CHAT, "--json"))
    check.same(guessed[0]["guessed"] > 1, True, "guesses")
    check.holds(check.run("generate", CHAT, "hello", "--draft", TRANSLATOR, code=1), "it can't guess", "a wrong draft")
    check.holds(check.run("generate", CHAT, code=1), "no text", "no text")
    check.holds(check.run("generate", DATA / "tiny_embedder", "hello", code=1), "no logits", "no language model")
    check.holds(check.run("chat", TRANSLATOR, code=1), "no chat template", "no chat template")


def entities(check):
    ner = DATA / "text_tasks/ner_words"
    whole = check.run("ner", ner, "--text", "John lives in Berlin", "-a", "first", "--json", "--ignore", "none")
    check.same(check.run("ner", ner, "--text", "John  lives in Berlin", "-a", "first", "--json", "--ignore", "none", "--words"),
               whole, "words at blanks")
    line = '{"words": ["John", "lives", "in", "Berlin"]}\n'
    check.same(check.run("ner", ner, "-", "-a", "first", "--json", "--ignore", "none", "--words", text=line), whole, "words")
    check.holds(check.run("ner", ner, "-", "--words", text='{"words": [1]}\n', code=1), "no list of texts", "wrong words")


def rewrite(check):
    check.same(check.run("translate", TRANSLATOR, "the cat sees a bird .", "the cat"),
               "die Katze sieht einen Vogel .\ndie Katze\n", "translations")
    answers = json.loads(check.run("translate", TRANSLATOR, "the cat", "--json"))
    check.same(answers[0]["translation_text"], "die Katze", "JSON")
    check.same(check.run("summarize", TRANSLATOR, "-f", "-", text="cat sees\na bird"), "die Katze sieht\n", "a summary")
    check.holds(check.run("summarize", CHAT, "hello", code=1), "no encoder_model.onnx", "no encoder")


def piped_chat(check):
    said = check.run("chat", CHAT, text="hello\n/retry\n/undo\nhow are you \\\ntoday ?\n/history\n/nonsense\n/exit\n")
    check.holds(said, "hi there friend .\n" * 3 + "user: how are you \ntoday ?\n", "a conversation")
    check.holds(said, "/help", "help")
    with tempfile.TemporaryDirectory() as folder:
        saved = pathlib.Path(folder) / "chat.json"
        check.run("chat", CHAT, "--system", "hello", text=f"hello\n/save {saved}\n")
        check.same([m["role"] for m in json.loads(saved.read_text())], ["system", "user", "assistant"], "a saved one")
        said = check.run("chat", CHAT, text=f"/load {saved}\n/history\n")
        check.holds(said, "system: hello\nuser: hello\n", "a loaded one")


def refusals(check):
    def refused(part, *arguments, code=1, **more):
        check.holds(check.run(*arguments, code=code, **more), part, f"refused: {arguments}")

    latin = os.fsdecode(b"caf\xe9")
    refused("is not valid UTF-8", "generate", CHAT, "--chat", latin)
    refused("is not valid UTF-8", "generate", CHAT, "--chat", "hello", "--system", latin)
    refused("is not valid UTF-8", "generate", CHAT, latin)
    refused("is not valid UTF-8", "chat", CHAT, "--system", latin)
    refused('no setting "tempratur"', "generate", CHAT, "<s>", "--set", "tempratur=1")
    refused("no finite number", "generate", CHAT, "<s>", "--temperature", "nan", code=2)
    refused("below 0", "generate", CHAT, "<s>", "--seed", "-1", code=2)
    for option, value, part in (("--beams", "1000000", "num_beams is 1000000"), ("--beams", "0", "num_beams is 0"),
                                ("--top-p", "2", "top_p is 2"), ("--top-p", "-0.5", "top_p is -0.5"),
                                ("--temperature", "0", "temperature is 0"), ("--temperature", "-1", "temperature is -1"),
                                ("--top-k", "-1", "top_k is -1"), ("--min-p", "7", "min_p is 7"),
                                ("--typical-p", "0", "typical_p is 0"), ("-n", "0", "max_new_tokens is 0"),
                                ("--answers", "1000000", "num_return_sequences is 1000000"),
                                ("--repetition-penalty", "0", "repetition_penalty is 0"),
                                ("--set", "max_length=99999999999999999999", "max_length"),
                                ("--set", "eos_token_id=end", "an id or a list of ids"),
                                ("--set", "top_k=2.5", '"top_k" in --set is 2.5, not an integer'),
                                ("--set", "do_sample=1", "not true or false"), ("--stop", latin, "is not valid UTF-8"),
                                ("--stop", "", "a stop string is empty")):
        refused(part, "generate", CHAT, "<s>", option, value)
    refused("is a folder", "generate", CHAT, "-f", CHAT)
    refused("no text", "summarize", TRANSLATOR, "-f", "-", text="")
    with tempfile.TemporaryDirectory() as folder:
        lines = pathlib.Path(folder) / "lines.jsonl"
        lines.write_text('{"text": "<s>", "seed": -1}\n')
        refused("no whole number", "generate", CHAT, "-f", lines)
    with open("/dev/full", "w") as full:
        result = subprocess.run([check.program, "generate", CHAT, "<s>"], stdout=full, stderr=subprocess.PIPE, text=True)
        check.same(result.returncode, 1, "a full disk")
        check.holds(result.stderr, "cannot write", "a full disk")


class Terminal:
    def __init__(self, *command):
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            os.execv(command[0], command)
        self.seen = ""

    def until(self, pattern, seconds=60):
        limit = time.time() + seconds
        while not re.search(pattern, self.seen):
            if time.time() > limit or not select.select([self.end], [], [], limit - time.time())[0]:
                sys.exit(f"no {pattern!r} in {self.seen!r}")
            self.seen += os.read(self.end, 4096).decode(errors="replace")
        seen, self.seen = self.seen, ""
        return seen

    def type(self, text):
        os.write(self.end, text.encode())


def terminal_chat(check):
    # Without an end the answer goes on until it is stopped.
    terminal = Terminal(str(check.program), "chat", str(CHAT), "--set", "eos_token_id=[]", "-n", "100000000")
    terminal.until("> ")
    terminal.type("hello\n")
    terminal.until("friend")
    os.kill(terminal.pid, signal.SIGINT)
    terminal.until(r"\.\.\.\s+> ")
    terminal.type("/set max_new_tokens=3\n")
    terminal.until("> ")
    terminal.type("/new\n")
    terminal.until("> ")
    terminal.type("good\n")
    answer = terminal.until(r"tokens read.*\n.*> ")
    check.holds(answer, "hi there friend", "an answer after one that was stopped")
    check.holds(answer, "max_new_tokens", "why it ended")
    terminal.type("\x04")
    _, status = os.waitpid(terminal.pid, 0)
    check.same(os.waitstatus_to_exitcode(status), 0, "leaving")


def main():
    check = Checks(pathlib.Path(sys.argv[1]).resolve())
    refusals(check)
    generate(check)
    rewrite(check)
    entities(check)
    piped_chat(check)
    terminal_chat(check)
    print(f"generation: {check.done} checks")


if __name__ == "__main__":
    main()
