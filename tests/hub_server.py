"""A small hub for tests: the API of the Hugging Face hub as far as downloads need it, with faults on demand.

Small files are served at /REPO/resolve/REVISION/FILE, with git's hash as etag; large ones redirect to /cdn/SHA256 on another
host name (localhost instead of 127.0.0.1), as the real hub does. `faults` maps a kind of request to a list of faults, each
used up once: ("status", 503), ("cut", N) to close the connection after N bytes of the body, ("garble",) to send other
bytes, ("ignore_range",) to send everything.
"""
import hashlib
import http.server
import json
import threading
import time
import urllib.parse

LARGE = 10000


def git_hash(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Repository:
    def __init__(self):
        self.commits, self.refs, self.gated, self.private = {}, {}, False, False

    def push(self, files, ref="main"):
        commit = hashlib.sha1(repr((ref, sorted(files.items()), len(self.commits))).encode()).hexdigest()
        self.commits[commit] = dict(files)
        self.refs[ref] = commit
        return commit


class Hub:
    def __init__(self, rate=None):
        self.repositories, self.faults, self.log, self.rate = {}, {}, [], rate
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments):
                pass

            def do_HEAD(self):
                hub.answer(self)

            def do_GET(self):
                hub.answer(self)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass  # clients that are killed

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def repository(self, name):
        return self.repositories.setdefault(name, Repository())

    def fault(self, kind):
        waiting = self.faults.get(kind, [])
        return waiting.pop(0) if waiting else None

    def send(self, request, status, headers=(), body=b"", fault=None):
        request.send_response(status)
        for name, value in dict(headers).items():
            request.send_header(name, value)
        if "Content-Length" not in dict(headers):
            request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command == "HEAD":
            return
        if fault and fault[0] == "cut":
            body = body[:fault[1]]
            request.close_connection = True
        if fault and fault[0] == "garble":
            body = bytes(b ^ 1 for b in body)
        for start in range(0, len(body), 65536):
            request.wfile.write(body[start:start + 65536])
            if self.rate:
                time.sleep(65536 / self.rate)

    def send_file(self, request, data, headers, fault):
        asked = request.headers.get("Range")
        if asked and not (fault and fault[0] == "ignore_range"):
            start = int(asked.removeprefix("bytes=").split("-")[0])
            if start >= len(data):
                return self.send(request, 416, {"Content-Range": f"bytes */{len(data)}"})
            part = data[start:]
            return self.send(request, 206, {**headers, "Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}",
                                            "Content-Length": str(len(part))}, part, fault)
        self.send(request, 200, {**headers, "Content-Length": str(len(data))}, data, fault)

    def answer(self, request):
        path = urllib.parse.unquote(request.path.split("?")[0])
        kind = "cdn" if path.startswith("/cdn/") else "api" if path.startswith("/api/") else request.command.lower()
        self.log.append((request.command, path, request.headers.get("Range"), request.headers.get("Authorization")))
        fault = self.fault(kind)
        if fault and fault[0] == "status":
            return self.send(request, fault[1], {"Retry-After": "0"})
        if kind == "cdn":
            wanted = path.removeprefix("/cdn/")
            for repository in self.repositories.values():
                for files in repository.commits.values():
                    for data in files.values():
                        if hashlib.sha256(data).hexdigest() == wanted:
                            return self.send_file(request, data, {"ETag": '"other"'}, fault)
            return self.send(request, 404)
        raw = request.path.split("?")[0].strip("/").split("/")
        if raw[0] == "api":
            raw = raw[2:]
            name, revision = "/".join(raw[:raw.index("revision")]), urllib.parse.unquote(raw[raw.index("revision") + 1])
            file = None
        else:
            at = raw.index("resolve")
            name, revision = "/".join(raw[:at]), urllib.parse.unquote(raw[at + 1])
            file = urllib.parse.unquote("/".join(raw[at + 2:]))
        repository = self.repositories.get(name)
        allowed = request.headers.get("Authorization") == "Bearer secret"
        if repository is None or (repository.private and not allowed):
            return self.send(request, 401, {"X-Error-Code": "RepoNotFound"})
        if repository.gated and not allowed:
            return self.send(request, 403, {"X-Error-Code": "GatedRepo"})
        commit = repository.refs.get(revision, revision)
        if commit not in repository.commits:
            return self.send(request, 404, {"X-Error-Code": "RevisionNotFound"})
        files = repository.commits[commit]
        if file is None:
            return self.send(request, 200, {"Content-Type": "application/json"}, json.dumps(
                {"id": name, "sha": commit, "siblings": [{"rfilename": f} for f in sorted(files)]}).encode())
        if file not in files:
            return self.send(request, 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
        data = files[file]
        headers = {"X-Repo-Commit": commit, "ETag": f'"{git_hash(data)}"'}
        if len(data) >= LARGE:
            sha = hashlib.sha256(data).hexdigest()
            return self.send(request, 302, {"X-Repo-Commit": commit, "X-Linked-ETag": f'"{sha}"', "X-Linked-Size": str(len(data)),
                                            "ETag": '"pointer"', "Location": f"http://localhost:{self.port}/cdn/{sha}"})
        self.send_file(request, data, headers, fault)
