#!/usr/bin/env python3
"""Checks `transmuter download` against the small hub of hub_server.py: check_hub.py PROGRAM WORK [--kills N].

Redirects, ranges, transfers that break, wrong bytes, missing and gated repositories, offline, several processes at once,
processes killed at random moments; and, where the Python package huggingface_hub is installed, that its client reads our
cache and we read its. The last line is `N passed, N failed`.
"""
import argparse
import hashlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from hub_server import Hub, git_hash

try:
    import huggingface_hub
except ImportError:
    huggingface_hub = None

REPO = "tests/small"
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def model_with_weights(folder):
    """A model of 200 kB whose weights lie in model.onnx_data."""
    weight = np.random.default_rng(1).standard_normal((200, 256)).astype(np.float32)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "small",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 200])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 256])],
                              [numpy_helper.from_array(weight, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx", save_as_external_data=True, location="model.onnx_data", size_threshold=16)
    plain = folder / "plain.onnx"
    onnx.save(onnx.load(folder / "model.onnx"), plain)
    return {"onnx/model.onnx": (folder / "model.onnx").read_bytes(),
            "onnx/model.onnx_data": (folder / "model.onnx_data").read_bytes(),
            "onnx/model_q4.onnx": plain.read_bytes()}


class Place:
    """A hub with one repository, and an empty cache."""

    def __init__(self, program, work, rate=None):
        self.program, self.work = program, work
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        self.hub = Hub(rate)
        self.files = {**model_with_weights(work / "made"), "config.json": b'{"model_type": "small"}', "tokenizer.json": b"{}",
                      "README.md": b"# small", "pytorch_model.bin": b"x" * 20000}
        self.repository = self.hub.repository(REPO)
        self.commit = self.repository.push(self.files)
        self.cache = work / "home" / "hub"
        self.folder = self.cache / "models--tests--small"

    def environment(self, **more):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING", "XDG_", "TRANSFORMERS_"))}
        return {**kept, "HF_HOME": str(self.work / "home"), "HF_ENDPOINT": self.hub.url, "HF_HUB_ETAG_TIMEOUT": "5", **more}

    def start(self, *arguments, **more):
        return subprocess.Popen([self.program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=self.environment(**more))

    def run(self, *arguments, **more):
        process = self.start(*arguments, **more)
        out, error = process.communicate(timeout=120)
        return process.returncode, out.strip(), error.strip()

    def download(self, *arguments, **more):
        code, out, error = self.run("download", REPO, *arguments, **more)
        assert code == 0, error
        return out

    def arrives(self, file):
        """Downloads a file whole."""
        assert pathlib.Path(self.download(file)).read_bytes() == self.files[file]

    def fails(self, *arguments, **more):
        code, out, error = self.run(*arguments, **more)
        assert code == 1, (code, out, error)
        return error

    def verify(self):
        """Every blob is what its name says, every link leads to one."""
        for blob in self.cache.glob("models--*/blobs/*"):
            if blob.name.endswith(".incomplete"):
                continue
            data = blob.read_bytes()
            assert blob.name in (git_hash(data), hashlib.sha256(data).hexdigest()), blob
        for link in self.cache.glob("models--*/snapshots/**/*"):
            assert link.exists(), f"{link} leads nowhere"


@check
def a_model_comes_with_what_it_needs(place):
    folder = pathlib.Path(place.download())
    assert folder == place.folder / "snapshots" / place.commit, folder
    assert sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()) == \
        ["config.json", "onnx/model.onnx", "onnx/model.onnx_data", "tokenizer.json"]
    assert (folder / "onnx/model.onnx_data").read_bytes() == place.files["onnx/model.onnx_data"]
    link = folder / "onnx/model.onnx_data"
    assert link.is_symlink() and not os.path.isabs(os.readlink(link))
    assert link.resolve().name == hashlib.sha256(place.files["onnx/model.onnx_data"]).hexdigest()
    assert (place.folder / "refs/main").read_text() == place.commit
    assert (place.cache / "CACHEDIR.TAG").exists()
    place.verify()
    code, _, error = place.run("inspect", f"hf:{REPO}")
    assert code == 0, error
    place.hub.log.clear()
    place.download()
    assert [entry[:1] for entry in place.hub.log] == [("GET",)], "a second call asks for the list only"


@check
def variants_and_single_files(place):
    folder = pathlib.Path(place.download("--dtype", "q4"))
    assert (folder / "onnx/model_q4.onnx").exists() and not (folder / "onnx/model.onnx").exists()
    assert "it has fp32, q4" in place.fails("download", REPO, "--dtype", "fp16")
    assert "there is no dtype" in place.fails("download", REPO, "--dtype", "q3")
    path = pathlib.Path(place.download("README.md"))
    assert path.read_bytes() == b"# small"
    assert "pytorch_model.bin" in place.download("--list").split()
    path = place.download("README.md", "--revision", place.commit)
    assert path.endswith(f"{place.commit}/README.md")


@check
def broken_transfers_go_on_where_they_stopped(place):
    place.hub.faults = {"head": [("status", 503)], "cdn": [("cut", 5000), ("status", 500), ("cut", 100)]}
    place.arrives("pytorch_model.bin")
    assert [entry[2] for entry in place.hub.log if entry[1].startswith("/cdn/")] == \
        [None, "bytes=5000-", "bytes=5000-", "bytes=5100-"]
    place.verify()


@check
def a_server_without_ranges_sends_everything_again(place):
    place.hub.faults = {"cdn": [("cut", 5000), ("ignore_range",)]}
    place.arrives("pytorch_model.bin")


@check
def an_address_that_expired_is_asked_for_anew(place):
    place.hub.faults = {"cdn": [("cut", 5000), ("status", 403)]}
    place.arrives("pytorch_model.bin")
    assert [entry[0] for entry in place.hub.log if "resolve" in entry[1]] == ["HEAD", "HEAD"]


@check
def wrong_bytes_never_get_a_name(place):
    place.hub.faults = {"cdn": [("garble",)], "get": [("garble",)]}
    place.arrives("pytorch_model.bin")
    place.arrives("README.md")
    place.hub.faults = {"get": [("garble",)] * 2}
    assert "arrived twice with other contents" in place.fails("download", REPO, "config.json")
    place.verify()
    assert place.download("config.json")


@check
def leftovers_of_another_file_are_no_trouble(place):
    blobs = place.folder / "blobs"
    blobs.mkdir(parents=True)
    sha = hashlib.sha256(place.files["pytorch_model.bin"]).hexdigest()
    for left in (b"", b"y" * 100, b"x" * 20000, b"y" * 20000, b"x" * 30000):
        (blobs / f"{sha}.incomplete").write_bytes(left)
        place.arrives("pytorch_model.bin")
        (blobs / sha).unlink()


@check
def the_token_goes_to_the_hub_alone(place):
    place.repository.private = True
    assert "it is private" in place.fails("download", REPO, "README.md")
    place.download("pytorch_model.bin", HF_TOKEN="secret")
    for command, path, _, authorization in place.hub.log:
        assert not path.startswith("/cdn/") or authorization is None, "the other host got the token"
    assert "may not see it" in place.fails("download", REPO, "README.md", HF_TOKEN="wrong")
    (place.work / "home" / "token").write_text("secret\n")
    place.download("README.md")
    error = place.fails("download", REPO, "config.json", HF_HUB_DISABLE_IMPLICIT_TOKEN="1")
    assert "it is private" in error


@check
def what_is_missing_is_named(place):
    assert "no repository tests/none" in place.fails("download", "tests/none", "a.txt")
    assert 'no revision "v9"' in place.fails("download", REPO, "README.md", "--revision", "v9")
    assert 'no file "none.txt"' in place.fails("download", REPO, "none.txt")
    assert (place.folder / f".no_exist/{place.commit}/none.txt").exists()
    place.repository.gated = True
    assert "is gated: ask for access at" in place.fails("download", REPO, "README.md")
    for name in ("a/b/c", "../up", "a--b", "x y", ""):
        assert "is not the name of a repository" in place.fails("download", name, "README.md"), name
    for file in ("../x", "/etc/passwd", "a/../../x"):
        assert "is not a file of a repository" in place.fails("download", REPO, file), file
    assert "not a branch" in place.fails("download", REPO, "README.md", "--revision", "../main")


@check
def offline_nothing_is_asked(place):
    assert "requests are forbidden" in place.fails("download", REPO, "README.md", HF_HUB_OFFLINE="1")
    path = place.download("README.md")
    folder = place.download()
    place.hub.log.clear()
    assert place.download("README.md", HF_HUB_OFFLINE="1") == path
    assert place.download("README.md", "--offline") == path
    assert place.download(HF_HUB_OFFLINE="true") == folder
    assert "no \"LICENSE\" of tests/small" in place.fails("download", REPO, "LICENSE", HF_HUB_OFFLINE="1")
    assert place.hub.log == []
    # A hub that does not answer.
    gone = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    assert place.download("README.md", **gone) == path
    assert place.download(**gone) == folder
    assert "cannot download" in place.fails("download", REPO, "LICENSE", "--retries", "1", **gone)


@check
def new_commits_share_what_did_not_change(place):
    first = pathlib.Path(place.download("README.md", "config.json").split()[1])
    files = {**place.files, "README.md": b"# newer"}
    newer = place.repository.push(files)
    place.repository.push(files, ref="refs/pr/1")
    place.hub.log.clear()
    readme, config = map(pathlib.Path, place.download("README.md", "config.json").split())
    assert readme.read_bytes() == b"# newer" and readme.parent.name == newer
    assert config.resolve() == first.resolve()
    assert not any(entry[0] == "GET" and entry[1].endswith("config.json") for entry in place.hub.log)
    place.download("README.md", "--revision", "refs/pr/1")
    assert (place.folder / "refs/refs/pr/1").exists()
    old = place.download("README.md", "--revision", place.commit)
    assert pathlib.Path(old).read_bytes() == b"# small"
    place.verify()


@check
def several_processes_download_once(place):
    place.hub.rate = 2e6
    processes = [place.start("download", REPO, "onnx/model.onnx_data") for _ in range(4)]
    for process in processes:
        out, error = process.communicate(timeout=60)
        assert process.returncode == 0, error
    assert sum(entry[1].startswith("/cdn/") for entry in place.hub.log) == 1
    place.verify()


@check
def killed_processes_leave_a_good_cache(place):
    random.seed(7)
    place.hub.rate = 1e6
    for _ in range(place.kills):
        process = place.start("download", REPO)
        time.sleep(random.uniform(0.0, 0.35))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        place.verify()
        if random.random() < 0.2:
            shutil.rmtree(place.cache, ignore_errors=True)
    place.hub.rate = None
    folder = pathlib.Path(place.download())
    assert (folder / "onnx/model.onnx_data").read_bytes() == place.files["onnx/model.onnx_data"]
    place.verify()


@check
def the_python_client_reads_our_cache_and_we_read_its(place):
    if huggingface_hub is None:
        return "skipped: no huggingface_hub here"
    script = ("import sys, huggingface_hub as h\n"
              "for f in sys.argv[2:]: print(h.hf_hub_download(sys.argv[1], f))\n"
              "print(h.try_to_load_from_cache(sys.argv[1], 'none.txt') is h._CACHED_NO_EXIST)\n"
              "h.scan_cache_dir()\n")

    def client(*files, **more):
        result = subprocess.run([sys.executable, "-c", script, REPO, *files], capture_output=True, text=True,
                                env=place.environment(HF_HUB_DISABLE_TELEMETRY="1", **more))
        assert result.returncode == 0, result.stderr
        return result.stdout.split()

    ours = place.download("onnx/model.onnx_data", "config.json").split()
    place.fails("download", REPO, "none.txt")
    place.hub.log.clear()
    assert client("onnx/model.onnx_data", "config.json", HF_HUB_OFFLINE="1") == [*ours, "True"]
    assert client("onnx/model.onnx_data", "config.json") == [*ours, "True"]
    assert not any(entry[0] == "GET" for entry in place.hub.log), "it downloaded what we had"
    theirs = client("pytorch_model.bin", "README.md")[:2]
    place.hub.log.clear()
    assert place.download("pytorch_model.bin", "README.md").split() == theirs
    assert place.download("pytorch_model.bin", "README.md", HF_HUB_OFFLINE="1").split() == theirs
    assert not any(entry[0] == "GET" for entry in place.hub.log), "we downloaded what it had"
    place.verify()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--filter", default="")
    options = parser.parse_args()
    passed, failed = 0, 0
    for function in CHECKS:
        if options.filter not in function.__name__:
            continue
        place = Place(options.program.resolve(), options.work.resolve())
        place.kills = options.kills
        try:
            note = function(place)
            passed += 1
            print(f"ok {function.__name__}{': ' + note if note else ''}")
        except Exception:  # noqa: BLE001: every check is reported
            failed += 1
            print(f"FAIL {function.__name__}")
            traceback.print_exc(file=sys.stdout)
        place.hub.close()
        shutil.rmtree(options.work, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
