"""The command `onnx-embeddings`, as a person and as a script use it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hub_server import HubServer
from typer.testing import CliRunner

import onnx_embeddings
from onnx_embeddings import EngineConfig, cli
from onnx_embeddings.errors import OnnxEmbeddingsError, SettingError, VerificationError
from onnx_embeddings.testing import write_tiny_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typer.testing import Result

NAME = "org/tiny"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    folder = write_tiny_model(tmp_path / "source", seed=21)
    files = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1,localhost")
    with HubServer() as server:
        server.add(NAME, {name: file.read_bytes() for name, file in files.items()})
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


def run(*arguments: object, code: int = 0, answer: str | None = None) -> Result:
    result = CliRunner().invoke(cli.app, [str(a) for a in arguments], input=answer)
    if isinstance(result.exception, OnnxEmbeddingsError):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def values(*arguments: object, code: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", code=code).stdout)


def kinds(model: str = NAME) -> list[str]:
    return [copy["kind"] for copy in values("info", model)["copies"]]


def test_help_names_all_commands_and_says_what_they_do() -> None:
    text = run("--help").output
    for command in ("pull", "list", "info", "verify", "remove", "pack", "unpack"):
        assert command in text
        assert "Usage" in run(command, "--help").output
    assert run("--version").stdout.strip() == onnx_embeddings.__version__


def test_a_pulled_model_starts_without_the_network(hub: HubServer) -> None:
    assert values("info", NAME)["copies"] == []
    told = values("pull", NAME, "--precision", "int8")
    assert told["spec"]["precision"] == "int8"
    hub.requests.clear()
    with onnx_embeddings.load(NAME, precision="int8", config=EngineConfig(offline=True)) as engine:
        assert str(engine.path) == told["path"]
        assert engine.spec.to_dict() == told["spec"]
    assert hub.requests == []
    assert kinds() == ["hub cache", "compiled"]
    text = run("pull", NAME, "--precision", "int8").stdout
    assert "32 numbers, int8, up to 32 tokens" in text
    assert told["path"] in text.replace("\n", "")


def test_info_shows_what_every_copy_takes(hub: HubServer) -> None:
    del hub
    run("pull", NAME)
    (cached, compiled) = values("info", NAME)["copies"]
    assert cached["bytes"] > 100_000
    assert compiled["bytes"] > 50_000
    assert (cached["precision"], compiled["precision"]) == (None, "fp32")
    text = run("info", NAME).stdout
    assert "not in the catalog" in text
    assert "hub cache" in text
    known = values("info", "all-MiniLM-L6-v2")
    assert known["model"] == "sentence-transformers/all-MiniLM-L6-v2"
    assert known["known"]["dim"] == 384
    assert "onnx-embeddings pull" in run("info", "all-MiniLM-L6-v2").stdout


def test_list_shows_the_catalog() -> None:
    models = {model["name"]: model for model in values("list")}
    assert models["sentence-transformers/all-MiniLM-L6-v2"]["on_disk_bytes"] == 0
    assert {model.name for model in onnx_embeddings.list_models()} == set(models)
    text = run("list").stdout
    for name in models:
        assert name in text
    assert values("list", "--here") == []


def test_list_shows_what_is_here_of_other_models_too(hub: HubServer) -> None:
    del hub
    run("pull", NAME)
    (here,) = values("list", "--here")
    assert here["name"] == NAME
    assert here["on_disk_bytes"] > 100_000
    assert NAME in run("list", "--here").stdout


def test_verify_names_what_is_damaged_and_pull_mends_that_alone(hub: HubServer) -> None:
    told = values("pull", NAME)
    found = values("verify", NAME)
    assert [(f["kind"], f["problem"]) for f in found] == [("hub cache", None), ("compiled", None)]
    assert found[0]["files"] >= 6
    assert "files are right" in run("verify", NAME).stdout
    blob = (Path(told["path"]) / "model.safetensors").resolve()
    damaged = bytearray(blob.read_bytes())
    damaged[-1] ^= 1
    status = blob.stat()
    blob.write_bytes(damaged)
    # Even where nothing but the content tells.
    os.utime(blob, ns=(status.st_atime_ns, status.st_mtime_ns))
    found = values("verify", NAME, code=1)
    assert "model.safetensors has sha256" in found[0]["problem"]
    assert "DAMAGED" in run("verify", NAME, code=1).stdout
    hub.requests.clear()
    run("pull", NAME)
    assert hub.fetched() == ["model.safetensors"]
    assert [f["problem"] for f in values("verify", NAME)] == [None, None]


def test_verify_says_all_and_deletes_only_if_asked(hub: HubServer) -> None:
    del hub
    told = values("pull", NAME)
    folder, compiled = Path(told["path"]), Path(values("info", NAME)["copies"][1]["path"])
    for name in ("tokenizer.json", "model.safetensors"):
        blob = (folder / name).resolve()
        blob.write_bytes(blob.read_bytes()[:-1] + b"x")
    weights = compiled / "weights.bin"
    weights.write_bytes(bytes(weights.stat().st_size))
    cached, made = values("verify", NAME, code=1)
    assert "tokenizer.json" in cached["problem"]
    assert "model.safetensors" in cached["problem"]
    assert "weights.bin has sha256" in made["problem"]
    assert compiled.exists()
    # What is damaged is not used any more, nor in anybody's way.
    run("pull", NAME)
    assert kinds() == ["hub cache", "compiled", "compiled"]
    values("verify", NAME, "--delete", code=1)
    assert not compiled.exists()
    assert [f["problem"] for f in values("verify", NAME)] == [None, None]
    run("verify", "org/nothing", code=1)


def test_what_can_not_be_read_now_is_not_deleted(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    del hub
    run("pull", NAME)
    compiled = Path(values("info", NAME)["copies"][1]["path"])

    def no_more(_: object) -> str:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("onnx_embeddings.memory._sha256", no_more)
    text = run("verify", NAME, "--delete", code=1).stdout
    assert "NOT READ" in text
    assert "Too many open files" in text
    assert "DAMAGED" not in text
    assert compiled.is_dir()


def test_who_writes_or_deletes_is_not_disturbed(hub: HubServer) -> None:
    del hub
    run("pull", NAME)
    compiled = Path(values("info", NAME)["copies"][1]["path"])
    shutil.copytree(compiled, compiled.with_name(f".tmp-00000000-{compiled.name}"))
    assert kinds() == ["hub cache", "compiled"]
    assert len(values("verify", NAME)) == 2


@pytest.mark.parametrize("name", ["..", ".", "", "./model", "/models", "a/../b", "../x"])
@pytest.mark.parametrize("command", ["info", "verify", "remove"])
def test_only_names_are_looked_for(tmp_path: Path, command: str, name: str) -> None:
    (tmp_path / "home" / "models" / "org--tiny").mkdir(parents=True)
    with pytest.raises(SettingError):
        run(command, name, *(["--yes"] if command == "remove" else []))
    assert (tmp_path / "home" / "models" / "org--tiny").is_dir()


def test_remove_takes_either_or_both(hub: HubServer) -> None:
    del hub
    run("pull", NAME)
    run("remove", NAME, code=1, answer="n\n")
    assert kinds() == ["hub cache", "compiled"]
    assert "are free" in run("remove", NAME, "--compiled", answer="y\n").stdout
    assert kinds() == ["hub cache"]
    run("pull", NAME)
    with pytest.raises(SettingError, match="without --yes"):
        values("remove", NAME, "--original")
    assert kinds() == ["hub cache", "compiled"]
    told = values("remove", NAME, "--original", "--yes")
    assert (len(told["removed"]), told["bytes"] > 0) == (1, True)
    assert kinds() == ["compiled"]
    run("remove", NAME, "--yes")
    assert kinds() == []
    assert "nothing of org/tiny" in run("remove", NAME, "--yes").output


def test_pack_and_unpack(hub: HubServer, tmp_path: Path) -> None:
    del hub
    told = values("pack", NAME, "-o", tmp_path / "dist", "--precision", "int8", "--licence", "MIT")
    assert told["manifest"]["revisions"] == ["c0ffee" + 34 * "0", "main"]
    assert "int8" in run("unpack", told["file"], "-o", tmp_path / "folder").stdout
    with onnx_embeddings.load(tmp_path / "folder") as engine:
        assert engine.spec.precision == "int8"
    text = run("pack", NAME, "-o", tmp_path / "dist", "--licence", "MIT", "--archive").stdout
    assert "unpack it there" in text
    assert values("unpack", tmp_path / "dist" / "org-tiny-fp32.tar", "-o", tmp_path / "other")


def test_verify_takes_the_folder_of_a_packed_model(hub: HubServer, tmp_path: Path) -> None:
    del hub
    told = values("pack", NAME, "-o", tmp_path / "dist", "--licence", "MIT")
    run("unpack", told["file"], "-o", tmp_path / "folder")
    (found,) = values("verify", tmp_path / "folder")
    assert (found["kind"], found["problem"]) == ("folder", None)
    assert found["files"] == len(told["manifest"]["files"])
    tokenizer = tmp_path / "folder" / "tokenizer.json"
    tokenizer.write_bytes(tokenizer.read_bytes().replace(b"cat", b"car", 1))
    (found,) = values("verify", tmp_path / "folder", code=1)
    assert "tokenizer.json has sha256" in found["problem"]
    with pytest.raises(VerificationError, match=r"tokenizer\.json"):
        onnx_embeddings.load(tmp_path / "folder")


def process(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "onnx_embeddings", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_error_is_a_line_and_for_scripts_a_document(tmp_path: Path) -> None:
    ended = process("pull", tmp_path / "nowhere")
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith("error: ")
    assert "does not exist" in ended.stderr
    assert "Traceback" not in ended.stderr
    ended = process("pull", tmp_path / "nowhere", "--json")
    assert ended.returncode == 1
    error = json.loads(ended.stdout)["error"]
    assert error["type"] == "ModelNotFoundError"
    assert "does not exist" in error["message"]


def test_the_command_is_installed_and_importing_the_engine_does_not_load_it() -> None:
    assert shutil.which("onnx-embeddings", path=str(_scripts())) is not None
    code = (
        "import sys, onnx_embeddings.engine\n"
        "assert not {'typer', 'rich', 'click'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def _scripts() -> Path:
    return Path(sys.executable).parent
