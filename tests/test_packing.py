"""`pack` and `unpack`: a model in one file, and back, and found where it is installed."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from padded_export import export
from test_engine import TEXTS

import onnx_embeddings
from onnx_embeddings import EngineConfig, ModelRequest, catalog, manifest
from onnx_embeddings.errors import (
    ModelFormatError,
    ModelNotFoundError,
    SettingError,
    StoreError,
    VerificationError,
)
from onnx_embeddings.packing import pack, unpack
from onnx_embeddings.sources import installed
from onnx_embeddings.testing import write_tiny_model

NAME = "company/tiny"
WHEEL = "onnx_embeddings_model_company_tiny_int8-1-py3-none-any.whl"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source") / "model"
    write_tiny_model(folder, prompts={"query": "q: ", "document": "d: "}, seed=5)
    (folder / "LICENSE").write_text("Do what you like.\n", encoding="utf-8")
    (folder / "README.md").write_text("not needed", encoding="utf-8")
    return folder


def packed(source: Path, out: Path, **options: Any) -> Path:
    precision = options.pop("precision", "int8")
    request = ModelRequest(model=str(source), precision=precision)
    options = {"name": NAME, "licence": "MIT"} | options
    file, said = pack(request, EngineConfig().resolved(), out, **options)
    assert said.model == NAME
    assert [entry.name for entry in out.iterdir()] == [file.name]
    return file


def install(wheel: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As pip does it: its files into a folder on the path."""
    shutil.unpack_archive(wheel, site, "zip")
    monkeypatch.syspath_prepend(str(site))
    (folder,) = [folder for _, folder in installed.folders()]
    return folder


def assert_the_same(one: onnx_embeddings.Engine, other: onnx_embeddings.Engine) -> None:
    assert one.spec.fingerprint == other.spec.fingerprint
    for embed in ("embed_documents", "embed_queries"):
        np.testing.assert_array_equal(getattr(one, embed)(TEXTS), getattr(other, embed)(TEXTS))


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("archive", [False, True])
def test_a_packed_model_has_the_vectors_of_the_original(
    source: Path,
    tmp_path: Path,
    precision: str,
    archive: bool,  # noqa: FBT001
) -> None:
    file = packed(source, tmp_path / "dist", precision=precision, archive=archive)
    said = unpack(file, tmp_path / "folder")
    assert (said.precision, said.licence, said.revisions) == (precision, "MIT", ())
    assert said.variant is None
    there = {
        p.relative_to(tmp_path / "folder").as_posix() for p in (tmp_path / "folder").rglob("*")
    }
    assert {*said.files, manifest.FILE} <= there
    assert {"LICENSE", "tokenizer.json", "onnx-embeddings/weights.bin"} <= set(said.files)
    assert not {"README.md", "model.safetensors"} & there
    # Another home: nothing compiled before is of use.
    elsewhere = EngineConfig(home=tmp_path / "elsewhere")
    with (
        onnx_embeddings.load(source, precision=precision) as one,
        onnx_embeddings.load(tmp_path / "folder", config=elsewhere) as other,
    ):
        assert_the_same(one, other)
    assert not (tmp_path / "elsewhere" / "compiled").exists()


def test_a_ready_file_is_packed_as_it_is(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "ready"
    shutil.copytree(source, folder)
    (folder / "onnx").mkdir()
    onnx.save(export(folder), folder / "onnx" / "model.onnx")
    request = ModelRequest(model=str(folder), variant="onnx/model.onnx")
    file, said = pack(request, EngineConfig().resolved(), tmp_path, name=NAME, licence="MIT")
    assert (said.variant, said.graph_format) == ("onnx/model.onnx", None)
    assert file.name == "onnx_embeddings_model_company_tiny_fp32_onnx_model-1-py3-none-any.whl"
    unpack(file, tmp_path / "folder")
    assert not (tmp_path / "folder" / "onnx-embeddings" / "graph.onnx").exists()
    with (
        onnx_embeddings.load(request) as one,
        onnx_embeddings.load(tmp_path / "folder") as other,
    ):
        assert_the_same(one, other)


def test_two_packs_are_the_same_bytes(source: Path, tmp_path: Path) -> None:
    one, other = (packed(source, tmp_path / name) for name in ("one", "other"))
    assert one.name == WHEEL
    assert one.read_bytes() == other.read_bytes()


def test_the_wheel_is_one_that_pip_takes(source: Path, tmp_path: Path) -> None:
    wheel = packed(source, tmp_path / "dist", version="2.1")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--disable-pip-version-check", "--no-compile", "--target", str(tmp_path / "site")]
    subprocess.run([*command, str(wheel)], check=True)
    (info,) = (tmp_path / "site").glob("*.dist-info")
    assert info.name == "onnx_embeddings_model_company_tiny_int8-2.1.dist-info"
    metadata = (info / "METADATA").read_text("utf-8")
    assert "License: MIT\n" in metadata
    assert f"Requires-Dist: onnx-embeddings>={onnx_embeddings.__version__}\n" in metadata
    assert (info / "licenses" / "LICENSE").read_text("utf-8") == "Do what you like.\n"
    package = tmp_path / "site" / "onnx_embeddings_model_company_tiny_int8"
    # No code: a docstring.
    compiled = compile((package / "__init__.py").read_text("utf-8"), "x", "exec")
    assert compiled.co_names == ("__doc__",)
    assert json.loads((package / "model" / manifest.FILE).read_text("utf-8"))["model"] == NAME


def test_an_installed_model_is_found_by_its_name_without_a_network(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = install(packed(source, tmp_path / "dist"), tmp_path / "site", monkeypatch)
    config = EngineConfig(home=tmp_path / "elsewhere", offline=True)
    with (
        onnx_embeddings.load(source, precision="int8") as one,
        onnx_embeddings.load(NAME, config=config) as other,
    ):
        assert other.path == folder
        assert_the_same(one, other)
    with onnx_embeddings.load(NAME, precision="int8", config=config) as engine:
        assert engine.spec.precision == "int8"
    # Nothing of it was imported.
    assert "onnx_embeddings_model_company_tiny_int8" not in sys.modules


def test_an_installed_model_needs_no_sockets_and_no_setting(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(packed(source, tmp_path / "dist"), tmp_path / "site", monkeypatch)

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("the network was touched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with onnx_embeddings.load(NAME) as engine:
        assert engine.embed_documents(["the cat"]).shape == (1, 32)


@pytest.mark.parametrize("name", ["graph.onnx", "weights.bin"])
def test_an_unpacked_model_that_is_damaged_is_refused(
    source: Path, tmp_path: Path, name: str
) -> None:
    unpack(packed(source, tmp_path / "dist"), tmp_path / "folder")
    onnx_embeddings.load(tmp_path / "folder").close()
    file = tmp_path / "folder" / "onnx-embeddings" / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(VerificationError, match=f"{name} has sha256") as caught:
        onnx_embeddings.load(tmp_path / "folder")
    assert "again" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"precision": "fp32"}, "it is packed as int8"),
        ({"variant": "onnx/model.onnx"}, "it is packed from the weights"),
        ({"revision": "v2"}, "it is packed from revision unknown"),
    ],
)
def test_an_installed_model_that_does_not_fit_says_why(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], why: str
) -> None:
    install(packed(source, tmp_path / "dist"), tmp_path / "site", monkeypatch)
    with pytest.raises(ModelNotFoundError) as caught:
        onnx_embeddings.load(NAME, config=EngineConfig(offline=True), **asked)
    assert any(why in place for place in caught.value.looked_in)


def test_of_two_installed_precisions_the_one_asked_for_is_taken(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for precision in ("int8", "fp32"):
        wheel = packed(source, tmp_path / precision, precision=precision)
        shutil.unpack_archive(wheel, tmp_path / "site", "zip")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    config = EngineConfig(offline=True)
    for asked, taken in (("int8", "int8"), ("fp32", "fp32"), (None, "fp32")):
        with onnx_embeddings.load(NAME, precision=asked, config=config) as engine:
            assert engine.spec.precision == taken


@pytest.mark.parametrize("damage", ["cut", "zeros", "missing", "manifest"])
def test_an_installed_model_that_is_damaged_is_not_used(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    folder = install(packed(source, tmp_path / "dist"), tmp_path / "site", monkeypatch)
    weights = folder / "onnx-embeddings" / "weights.bin"
    size = weights.stat().st_size
    if damage == "manifest":
        (folder / manifest.FILE).write_text("{", encoding="utf-8")
    elif damage == "missing":
        weights.unlink()
    else:
        weights.write_bytes(bytes(size if damage == "zeros" else size // 2))
    with pytest.raises(ModelNotFoundError) as caught:
        onnx_embeddings.load(NAME, config=EngineConfig(offline=True))
    (place,) = [p for p in caught.value.looked_in if "package onnx_embeddings_model" in p]
    named = {
        "cut": f"weights.bin: has {size // 2} bytes, not {size}",
        "zeros": "weights.bin has sha256",
        "missing": "weights.bin: is missing",
        "manifest": "manifest.json: is not valid JSON",
    }
    assert named[damage] in place


def test_a_packed_precision_cannot_be_changed(source: Path, tmp_path: Path) -> None:
    unpack(packed(source, tmp_path / "dist"), tmp_path / "folder")
    with pytest.raises(SettingError, match="packed as int8"):
        onnx_embeddings.load(tmp_path / "folder", precision="fp32")


def test_another_graph_format_says_what_to_do(source: Path, tmp_path: Path) -> None:
    unpack(packed(source, tmp_path / "dist"), tmp_path / "folder")
    rewrite_note(tmp_path / "folder", graph_format=999)
    with pytest.raises(ModelFormatError, match="graph format 999, this version runs") as caught:
        onnx_embeddings.load(tmp_path / "folder")
    assert "pack it again" in str(caught.value.hint)


def content_in(file: Path) -> dict[str, Any]:
    content = file.read_bytes()
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def rewrite_note(folder: Path, **changes: Any) -> None:
    """Have graph.json, and the manifest that vouches for it, say something else."""
    place = folder / "onnx-embeddings"
    note = json.loads((place / "graph.json").read_text("utf-8")) | changes
    (place / "graph.json").write_text(json.dumps(note), encoding="utf-8")
    said = json.loads((folder / manifest.FILE).read_text("utf-8"))
    for name in ("graph.json", "graph.onnx"):
        said["files"][f"onnx-embeddings/{name}"] = content_in(place / name)
    (folder / manifest.FILE).write_text(json.dumps(said), encoding="utf-8")


@pytest.mark.parametrize(
    "changes",
    [
        {"scheme": "int8/2"},
        {"precision": "fp16"},
        {"precision": "fp32"},
        {"layout": "padded"},
        {"hidden_size": "32"},
        {"hidden_size": True},
        {"long_text": "512"},
        {"weights": None},
        {"files": {}},
    ],
    ids=json.dumps,
)
def test_a_note_that_says_odd_things_is_refused(
    source: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    unpack(packed(source, tmp_path / "dist"), tmp_path / "folder")
    rewrite_note(tmp_path / "folder", **changes)
    with pytest.raises(ModelFormatError, match=r"graph\.json|scheme"):
        onnx_embeddings.load(tmp_path / "folder")


def test_a_graph_that_claims_to_be_another_models_shares_no_session_with_it(
    source: Path, tmp_path: Path
) -> None:
    other = write_tiny_model(tmp_path / "other", seed=77)
    unpack(packed(other, tmp_path / "dist"), tmp_path / "folder")
    with onnx_embeddings.load(source, precision="int8") as engine:
        honest = engine.spec.weights
        expected = engine.embed_documents(["the cat"])
    rewrite_note(tmp_path / "folder", weights=honest)
    with (
        onnx_embeddings.load(tmp_path / "folder"),
        onnx_embeddings.load(source, precision="int8") as engine,
    ):
        np.testing.assert_array_equal(engine.embed_documents(["the cat"]), expected)


def test_prompts_of_the_catalog_are_packed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under another name nobody would know them."""
    folder = tmp_path / "model"
    shutil.copytree(source, folder)
    (folder / "config_sentence_transformers.json").unlink()
    known = catalog.find("intfloat/e5-small-v2")
    monkeypatch.setattr("onnx_embeddings.catalog.find", lambda _: known)
    monkeypatch.setattr("onnx_embeddings.sources.find", lambda request, _: (folder, request))
    request = ModelRequest(model="intfloat/e5-small-v2")
    file, _ = pack(request, EngineConfig().resolved(), tmp_path / "dist", name="company/e5")
    monkeypatch.undo()
    unpack(file, tmp_path / "folder")
    with onnx_embeddings.load(tmp_path / "folder") as engine:
        assert (engine.spec.query_prompt, engine.spec.document_prompt) == ("query: ", "passage: ")


def test_packing_into_a_relative_folder_leaves_nothing_else(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    packed(source, Path("dist"))
    assert [path.name for path in (tmp_path / "dist").rglob("*")] == [WHEEL]
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        packed(source, Path("file"))


@pytest.mark.parametrize("location", ["../../secret", "/etc/passwd", "other.bin"])
def test_a_graph_that_keeps_its_weights_elsewhere_is_refused(
    source: Path, tmp_path: Path, location: str
) -> None:
    unpack(packed(source, tmp_path / "dist"), tmp_path / "folder")
    file = tmp_path / "folder" / "onnx-embeddings" / "graph.onnx"
    model = onnx.load(file, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    file.write_bytes(model.SerializeToString())
    note = tmp_path / "folder" / "onnx-embeddings" / "graph.json"
    files = json.loads(note.read_text("utf-8"))["files"]
    rewrite_note(tmp_path / "folder", files=files | {"graph.onnx": content_in(file)})
    with pytest.raises(ModelFormatError, match="keeps weights in"):
        onnx_embeddings.load(tmp_path / "folder")


# What must be said.


def test_a_folder_needs_a_name_and_a_licence(source: Path, tmp_path: Path) -> None:
    request = ModelRequest(model=str(source))
    config = EngineConfig().resolved()
    with pytest.raises(SettingError, match="packed under a name"):
        pack(request, config, tmp_path / "dist", licence="MIT")
    for licence in (None, "", "  ", "MIT\nName: other"):
        with pytest.raises(SettingError, match="travels with the model"):
            pack(request, config, tmp_path / "dist", name=NAME, licence=licence)
    for version in ("", "1.0-beta", "1\n", "one"):
        with pytest.raises(SettingError, match="version"):
            pack(request, config, tmp_path / "v", name=NAME, licence="MIT", version=version)
    for name in ('a"""b', "../x", "a/b/c", "a b"):
        with pytest.raises(SettingError):
            pack(request, config, tmp_path / "n", name=name, licence="MIT")


def test_a_disk_that_is_full_leaves_no_half_package(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(StoreError, match="No space left"):
        packed(source, tmp_path / "dist")
    assert list((tmp_path / "dist").iterdir()) == []


# Hostile files.


def test_what_is_no_packed_model_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.whl"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("package/__init__.py", "")
    text = tmp_path / "text.tar"
    text.write_text("no archive", encoding="utf-8")
    for file in (other, text):
        with pytest.raises(ModelFormatError):
            unpack(file, tmp_path / "folder")
    with pytest.raises(StoreError):
        unpack(tmp_path / "missing.whl", tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_a_folder_that_is_there_is_left_alone(source: Path, tmp_path: Path) -> None:
    file = packed(source, tmp_path / "dist")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match="is there already"):
        unpack(file, tmp_path / "folder")
    assert list((tmp_path / "folder").iterdir()) == []


def changed(file: Path, target: Path, name: str, content: bytes | None) -> Path:
    """A copy of a wheel in which one member has another content, or is missing."""
    with zipfile.ZipFile(file) as before, zipfile.ZipFile(target, "w") as after:
        for member in before.namelist():
            if not member.endswith(name):
                after.writestr(member, before.read(member))
            elif content is not None:
                after.writestr(member, content)
    return target


@pytest.mark.parametrize(
    ("content", "error"),
    [(None, ModelFormatError), (b"x", VerificationError), (b"x" * 10**6, ModelFormatError)],
)
def test_a_file_with_another_content_is_named_and_nothing_is_left(
    source: Path, tmp_path: Path, content: bytes | None, error: type[Exception]
) -> None:
    file = packed(source, tmp_path / "dist")
    wrong = changed(file, tmp_path / "wrong.whl", "model/config.json", content)
    with pytest.raises(error, match=r"config\.json"):
        unpack(wrong, tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".part")] == []


@pytest.mark.parametrize(
    "values",
    [
        {"files": {"../outside": {"size": 1, "sha256": "0" * 64}}},
        {"files": {"/etc/x": {"size": 1, "sha256": "0" * 64}}},
        {"files": {"C:/x": {"size": 1, "sha256": "0" * 64}}},
        {"files": {"": {"size": 1, "sha256": "0" * 64}}},
        {"files": {"a": {"size": -1, "sha256": "0" * 64}}},
        {"files": {"a": {"size": True, "sha256": "0" * 64}}},
        {"files": {"a": {"size": 1}}},
        {"files": {"a": None}},
        {"files": []},
        {"format": 2},
        {"format": None},
        {"model": 5},
        {"licence": None},
        {"variant": []},
        {"revisions": [1]},
        {"revisions": None},
        {"files": {"NUL": {"size": 1, "sha256": "0" * 64}}},
        {"files": {"a/con.txt": {"size": 1, "sha256": "0" * 64}}},
        {"files": {"a.": {"size": 1, "sha256": "0" * 64}}},
        {"files": {"a\nb": {"size": 1, "sha256": "0" * 64}}},
        {"files": {"a": {"size": 1, "sha256": "x" * 64}}},
        {"variant": "../x.onnx"},
        {"graph_format": "4"},
    ],
    ids=json.dumps,
)
def test_an_odd_manifest_is_refused(source: Path, tmp_path: Path, values: dict[str, Any]) -> None:
    file = packed(source, tmp_path / "dist")
    with zipfile.ZipFile(file) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(manifest.FILE)]
        said = json.loads(archive.read(name)) | values
    wrong = changed(file, tmp_path / "wrong.whl", manifest.FILE, json.dumps(said).encode())
    with pytest.raises(ModelFormatError):
        unpack(wrong, tmp_path / "folder")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dist", "home", "wrong.whl"]


def test_links_and_devices_in_an_archive_are_no_files(source: Path, tmp_path: Path) -> None:
    file = packed(source, tmp_path / "dist", archive=True)
    wrong = tmp_path / "wrong.tar"
    with tarfile.open(file) as before, tarfile.open(wrong, "w") as after:
        for member in before.getmembers():
            if member.name.endswith("/config.json") and "Pooling" not in member.name:
                member.type, member.linkname, member.size = tarfile.SYMTYPE, "/etc/passwd", 0
                after.addfile(member)
            else:
                after.addfile(member, before.extractfile(member))
    with pytest.raises(ModelFormatError, match=r"config\.json.*missing in the archive"):
        unpack(wrong, tmp_path / "folder")


def test_what_is_installed_later_is_noticed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though where a package was found is remembered, as long as the folders have not changed."""
    install(packed(source, tmp_path / "int8"), tmp_path / "site", monkeypatch)
    config = EngineConfig(offline=True)
    for _ in range(2):
        with onnx_embeddings.load(NAME, config=config) as engine:
            assert engine.spec.precision == "int8"
    later = packed(source, tmp_path / "fp32", precision="fp32")
    shutil.unpack_archive(later, tmp_path / "site", "zip")
    with onnx_embeddings.load(NAME, config=config) as engine:
        assert engine.spec.precision == "fp32"
    for place in (tmp_path / "site").iterdir():
        shutil.rmtree(place)
    with pytest.raises(ModelNotFoundError):
        onnx_embeddings.load(NAME, config=config)
