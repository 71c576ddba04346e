"""A hub on this machine: it speaks the part of the protocol that huggingface_hub downloads by.

    with HubServer() as hub:
        hub.add("org/model", {"config.json": b"{}"})
        monkeypatch.setenv("HF_ENDPOINT", hub.url)

Files of `LARGE` bytes and more are answered with a redirect to another host, as large files are.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

LARGE = 1000
PIECE = 2**14
COMMIT = "c0ffee" + 34 * "0"


@dataclass
class Repository:
    files: dict[str, bytes]
    commit: str = COMMIT
    token: str | None = None
    gated: bool = False


@dataclass
class HubServer:
    """The switches may be turned while it runs.

    Attributes:
        requests: what was asked, ``GET /path``, oldest first.
        fail: path, or ``GET /path`` (a regular expression, from its start) -> the status that it
            is answered with.
        failures: one of these expressions -> how many more times; for ever if it is not in here.
        silent: accept every request and answer none.
        damaged: file -> how many more times it is sent with another content of the same length.
        stalled: file -> how many more times its body stops half-way, and nothing follows.
        cut: file -> how many more times the connection is closed half-way through its body.
        pause_s: between the pieces of a file's body, in seconds.
        whole: files whose whole body was sent in one answer, as often as it was.
        ranges: file and the range of it that was asked for, ``file bytes=100-``.
        tls: speaks TLS with these certificates.
        url: its address.
        cdn_url: the address that large files are redirected to.
    """

    requests: list[str] = field(default_factory=list)
    fail: dict[str, int] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    silent: bool = False
    damaged: dict[str, int] = field(default_factory=dict)
    stalled: dict[str, int] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    pause_s: float = 0.0
    whole: list[str] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        self._repositories: dict[str, Repository] = {}
        self._stopped = threading.Event()
        hub = self

        class Handler(_Handler):
            server_hub = hub

        # The large files lie with another host, as the hub's do.
        self._servers = [ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
        if self.tls is not None:
            for server in self._servers:
                server.socket = self.tls.wrap_socket(server.socket, server_side=True)
        self._threads = [
            threading.Thread(target=server.serve_forever, args=(0.01,)) for server in self._servers
        ]
        self.url, self.cdn_url = (
            f"http{'s' if self.tls else ''}://{host}:{server.server_address[1]}"
            for host, server in zip(("127.0.0.1", "localhost"), self._servers, strict=True)
        )

    def add(self, name: str, files: dict[str, bytes], **values: object) -> Repository:
        self._repositories[name] = Repository(files, **values)  # type: ignore[arg-type]
        return self._repositories[name]

    def fetched(self) -> list[str]:
        """The names of the files whose content was asked for, in order."""
        found = (re.fullmatch(r"GET /.+?/resolve/[^/]+/(.+)", line) for line in self.requests)
        # A large file is asked for here and sent from there.
        large = {
            name
            for repository in self._repositories.values()
            for name, body in repository.files.items()
            if len(body) >= LARGE
        }
        names = (unquote(match[1]) for match in found if match)
        direct = [name for name in names if name not in large]
        cdn = [
            line.partition("?name=")[2] for line in self.requests if line.startswith("GET /cdn/")
        ]
        return [*direct, *map(unquote, cdn)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        for server, thread in zip(self._servers, self._threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()


def blob_id(body: bytes) -> str:
    """What git calls this content."""
    return hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False).hexdigest()


def _sibling(name: str, body: bytes) -> dict[str, object]:
    """What the hub says of a file where it is asked for more than names."""
    sibling: dict[str, object] = {"rfilename": name, "size": len(body), "blobId": blob_id(body)}
    if len(body) >= LARGE:
        content = hashlib.sha256(body).hexdigest()
        sibling["lfs"] = {"sha256": content, "size": len(body), "pointerSize": 134}
    return sibling


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_hub: HubServer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
        pass

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def _serve(self) -> None:
        hub = self.server_hub
        hub.requests.append(f"{self.command} {self.path}")
        if hub.silent:
            hub._stopped.wait()
            self.close_connection = True
            return
        path = unquote(urlsplit(self.path).path)
        for pattern, status in hub.fail.items():
            if re.match(pattern, path) or re.match(pattern, f"{self.command} {path}"):
                left = hub.failures.get(pattern, 1)
                if left <= 0:
                    continue
                if pattern in hub.failures:
                    hub.failures[pattern] = left - 1
                self._answer(status, b"told to fail")
                return
        if path == "/":
            self._answer(200, b"a hub")
        elif match := re.fullmatch(r"/cdn/(.+)/([0-9a-f]{64})", path):
            contents = hub._repositories[match[1]].files.values()
            body = next(body for body in contents if hashlib.sha256(body).hexdigest() == match[2])
            name = unquote(urlsplit(self.path).query.removeprefix("name="))
            self._content(name, self._sent(name, body), {"ETag": f'"{match[2]}"'})
        elif match := re.fullmatch(r"/api/models/(.+?)(?:/revision/(.+))?", path):
            self._info(match[1], match[2] or "main")
        elif match := re.fullmatch(r"/(.+?)/resolve/([^/]+)/(.+)", path):
            self._resolve(match[1], match[2], match[3])
        else:
            self._answer(404, b"no such page")

    def _repository(self, name: str, revision: str) -> Repository | None:
        """The repository, or None after an answer that says why not."""
        repository = self.server_hub._repositories.get(name)
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if repository is None or (repository.token is not None and repository.token != token):
            # The hub does not tell a private repository from one that does not exist.
            self._answer(404 if token else 401, b"", {"X-Error-Code": "RepoNotFound"})
        elif repository.gated:
            self._answer(403, b"", {"X-Error-Code": "GatedRepo"})
        elif revision not in {"main", repository.commit}:
            self._answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
        else:
            return repository
        return None

    def _info(self, name: str, revision: str) -> None:
        repository = self._repository(name, revision)
        if repository is not None:
            siblings = [_sibling(name, body) for name, body in repository.files.items()]
            info = {"id": name, "modelId": name, "sha": repository.commit, "siblings": siblings}
            self._answer(200, json.dumps(info).encode(), {"Content-Type": "application/json"})

    def _resolve(self, name: str, revision: str, file: str) -> None:
        repository = self._repository(name, revision)
        if repository is None:
            return
        headers = {"X-Repo-Commit": repository.commit}
        body = repository.files.get(file)
        if body is None:
            self._answer(404, b"", headers | {"X-Error-Code": "EntryNotFound"})
            return
        digest = hashlib.sha256(body).hexdigest()
        if len(body) < LARGE:
            self._content(file, self._sent(file, body), headers | {"ETag": f'"{blob_id(body)}"'})
            return
        headers |= {"X-Linked-Size": str(len(body)), "X-Linked-Etag": f'"{digest}"'}
        location = f"{self.server_hub.cdn_url}/cdn/{name}/{digest}?name={file}"
        self._answer(302, b"moved", headers | {"Location": location, "ETag": '"pointer"'})

    def _sent(self, name: str, body: bytes) -> bytes:
        """The body, or, where it is to be damaged, one that is as long."""
        left = self.server_hub.damaged.get(name, 0)
        if self.command != "GET" or left <= 0:
            return body
        self.server_hub.damaged[name] = left - 1
        return body[:-1] + bytes([body[-1] ^ 1])

    def _content(self, name: str, body: bytes, headers: dict[str, str]) -> None:
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if match is None:
            whole = self._answer(200, body, headers | {"Accept-Ranges": "bytes"}, name)
            if self.command == "GET" and whole:
                self.server_hub.whole.append(name)
            return
        self.server_hub.ranges.append(f"{name} {match[0]}")
        start = int(match[1])
        if start >= len(body):
            self._answer(416, b"", {"Content-Range": f"bytes */{len(body)}"})
            return
        end = min(int(match[2]) if match[2] else len(body) - 1, len(body) - 1)
        headers = headers | {"Content-Range": f"bytes {start}-{end}/{len(body)}"}
        self._answer(206, body[start : end + 1], headers, name)

    def _answer(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, name: str = ""
    ) -> bool:
        """Send it; whether all of the body was sent."""
        hub = self.server_hub
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "GET":
            return True
        for trouble in (hub.stalled, hub.cut):
            if trouble.get(name, 0) > 0:
                trouble[name] -= 1
                self.wfile.write(body[: len(body) // 2])
                self.wfile.flush()
                if trouble is hub.stalled:
                    hub._stopped.wait()
                self.close_connection = True
                return False
        for start in range(0, len(body), PIECE):
            self.wfile.write(body[start : start + PIECE])
            time.sleep(hub.pause_s)
        return True
