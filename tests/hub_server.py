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
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from types import TracebackType

LARGE = 1000
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
        fail: path (a regular expression, from its start) -> the status that it is answered with.
        silent: accept every request and answer none.
        url: its address.
        cdn_url: the address that large files are redirected to.
    """

    requests: list[str] = field(default_factory=list)
    fail: dict[str, int] = field(default_factory=dict)
    silent: bool = False

    def __post_init__(self) -> None:
        self._repositories: dict[str, Repository] = {}
        self._stopped = threading.Event()
        hub = self

        class Handler(_Handler):
            server_hub = hub

        # The large files lie with another host, as the hub's do.
        self._servers = [ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
        self._threads = [
            threading.Thread(target=server.serve_forever, args=(0.01,)) for server in self._servers
        ]
        self.url, self.cdn_url = (
            f"http://{host}:{server.server_address[1]}"
            for host, server in zip(("127.0.0.1", "localhost"), self._servers, strict=True)
        )

    def add(self, name: str, files: dict[str, bytes], **values: object) -> Repository:
        self._repositories[name] = Repository(files, **values)  # type: ignore[arg-type]
        return self._repositories[name]

    def fetched(self) -> list[str]:
        """The names of the files whose content was asked for, in order."""
        found = (re.fullmatch(r"GET /.+?/resolve/[^/]+/(.+)", line) for line in self.requests)
        direct = [unquote(match[1]) for match in found if match]
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
            if re.match(pattern, path):
                self._answer(status, b"told to fail")
                return
        if path == "/":
            self._answer(200, b"a hub")
        elif match := re.fullmatch(r"/cdn/(.+)/([0-9a-f]{64})", path):
            contents = hub._repositories[match[1]].files.values()
            body = next(body for body in contents if hashlib.sha256(body).hexdigest() == match[2])
            self._content(body, {"ETag": f'"{match[2]}"'})
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
            siblings = [{"rfilename": file} for file in repository.files]
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
            self._content(body, headers | {"ETag": f'"{digest}"'})
            return
        headers |= {"X-Linked-Size": str(len(body)), "X-Linked-Etag": f'"{digest}"'}
        location = f"{self.server_hub.cdn_url}/cdn/{name}/{digest}?name={file}"
        self._answer(302, b"moved", headers | {"Location": location, "ETag": '"pointer"'})

    def _content(self, body: bytes, headers: dict[str, str]) -> None:
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if match is None:
            self._answer(200, body, headers | {"Accept-Ranges": "bytes"})
            return
        start = int(match[1])
        end = min(int(match[2]) if match[2] else len(body) - 1, len(body) - 1)
        headers = headers | {"Content-Range": f"bytes {start}-{end}/{len(body)}"}
        self._answer(206, body[start : end + 1], headers)

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)
