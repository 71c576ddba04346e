"""A local client, and a server to reach with the other one."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from qdrant_client import QdrantClient, models

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def client() -> Iterator[QdrantClient]:
    local = QdrantClient(":memory:")
    yield local
    local.close()


class Server(ThreadingHTTPServer):
    """Speaks the part of Qdrant's REST interface that the tests need; a local client answers.

    It shows what goes over the wire. It is no Qdrant server.
    """

    keeps_metadata = True
    failures = 0  # so many writes of points fail first

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.store = QdrantClient(":memory:")
        self.writes: list[tuple[int, str]] = []  # points and query string of each write
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.answer()

    def do_PUT(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def do_PATCH(self) -> None:
        self.answer()

    def answer(self) -> None:
        path, _, query = self.path.partition("?")
        found = re.fullmatch(r"/collections/([^/]+)(/.*)?", path)
        assert found
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
        status, result = 200, None
        with self.server.lock:
            if self.path.split("?")[0].endswith("/points") and self.server.failures:
                self.server.failures -= 1
                status = 500
            else:
                result = self.result(found[1], f"{self.command} {found[2] or ''}", body, query)
        answer = json.dumps({"result": result, "status": "ok", "time": 0.0}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def result(self, name: str, what: str, body: dict[str, Any], query: str) -> Any:
        server, store = self.server, self.server.store
        result: Any = True
        metadata = body.get("metadata") if server.keeps_metadata else None
        if what == "GET /exists":
            result = {"exists": store.collection_exists(name)}
        elif what == "GET ":
            result = store.get_collection(name).model_dump(mode="json", exclude_none=True)
        elif what == "PUT ":
            vectors = models.CreateCollection(**body).vectors
            store.create_collection(name, vectors, metadata=metadata)
        elif what == "PATCH ":
            store.update_collection(name, metadata=metadata)
        elif what == "PUT /points":
            points = [models.PointStruct(**point) for point in body["points"]]
            server.writes.append((len(points), query))
            store.upsert(name, points)
            result = {"operation_id": 0, "status": "completed"}
        elif what == "POST /points":
            vectors, payload = body["with_vector"], body["with_payload"]
            records = store.retrieve(name, body["ids"], payload, vectors)
            result = [record.model_dump(mode="json") for record in records]
        else:
            assert what == "POST /points/query"
            nearest = body["query"]["nearest"]
            result = store.query_points(name, nearest, limit=body["limit"]).model_dump(mode="json")
        return result

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  its name
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()
        made.store.close()


@pytest.fixture
def remote(server: Server) -> Iterator[QdrantClient]:
    made = QdrantClient(url=server.url, check_compatibility=False, trust_env=False)
    yield made
    made.close()
