from __future__ import annotations

import copy
import dataclasses
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import onnx_embeddings
from onnx_embeddings import Engine, EngineConfig, ModelRequest
from onnx_embeddings.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable

HOME = "ONNX_EMBEDDINGS_HOME"
LANES = "ONNX_EMBEDDINGS_LANES"
OFFLINE = "ONNX_EMBEDDINGS_OFFLINE"
CACHE = "ONNX_EMBEDDINGS_CACHE"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (HOME, LANES, OFFLINE, CACHE, "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)


BAD: dict[str, list[Any]] = {
    "cache": [False, True, 0, "", "off", "None", "OFF", "a\0b", b"folder", ["folder"]],
    "cache_bytes": [2**63, 0, -1, 1.5, "1", True, None, [], 1e30],
    "lanes": [0, -1, 1.0, "2", True, False, [], float("inf")],
    "batch_tokens": [0, -1, 512.0, "512", True, None, [], 1e30],
    "home": ["", "a\0b", 5, b"home", True, ["home"], object()],
    "offline": ["yes", "0", "false", "", 1, 0, [], "1"],
    "mirror": ["", "a\0b", 5, b"mirror", True, ["mirror"], object()],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD.items() for value in values]
)
def test_a_value_that_cannot_be_used_is_refused_with_its_name(name: str, value: object) -> None:
    ways: list[Callable[[], object]] = [
        lambda: EngineConfig(**{name: value}),  # type: ignore[arg-type]
        lambda: dataclasses.replace(EngineConfig(), **{name: value}),  # type: ignore[arg-type]
    ]
    for make in ways:
        with pytest.raises(SettingError) as caught:
            make()
        assert caught.value.name == name
        assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("name", ["threads", "Lanes", "", "resolved", "home_path"])
def test_a_name_that_no_field_has_is_refused(name: str) -> None:
    with pytest.raises(SettingError, match="batch_tokens") as caught:
        EngineConfig.from_dict({"lanes": 2, name: 5})
    assert caught.value.name == name


@pytest.mark.parametrize("values", ["lanes", ["lanes"], None, 5, b"", [("lanes", 2)]])
def test_what_is_no_dictionary_is_refused(values: Any) -> None:
    with pytest.raises(SettingError, match="must be a dictionary") as caught:
        EngineConfig.from_dict(values)
    assert caught.value.name == "engine_options"


def test_a_config_is_made_from_named_values() -> None:
    values = {"lanes": 2, "batch_tokens": 64, "home": "/store", "offline": True, "cache": None}
    values["cache_bytes"] = 2**20
    assert EngineConfig.from_dict(values) == EngineConfig(**values)  # type: ignore[arg-type]
    assert EngineConfig.from_dict({}) == EngineConfig()
    with pytest.raises(SettingError) as caught:
        EngineConfig.from_dict({"lanes": 0})
    assert caught.value.name == "lanes"


def test_all_fields_are_among_those_that_are_tried_with_bad_values() -> None:
    assert set(BAD) == {field.name for field in dataclasses.fields(EngineConfig)}


def test_the_defaults_are_those_of_the_documentation() -> None:
    config = EngineConfig()
    assert (config.cache, config.cache_bytes) == ("auto", 2**30)
    assert (config.lanes, config.batch_tokens) == (None, 512)
    assert (config.home, config.offline) == (None, None)
    resolved = config.resolved()
    assert (resolved.cache, resolved.lanes, resolved.offline) == ("auto", None, False)
    assert isinstance(resolved.home, Path)
    assert resolved.home.is_absolute()
    assert "onnx-embeddings" in resolved.home.parts


def test_the_environment_fills_in_what_is_not_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = EngineConfig()
    # Set after the config was made: it is read when the config is resolved.
    monkeypatch.setenv(HOME, str(tmp_path / "home"))
    monkeypatch.setenv(LANES, "3")
    monkeypatch.setenv(OFFLINE, "1")
    resolved = config.resolved()
    assert (resolved.home, resolved.lanes, resolved.offline) == (tmp_path / "home", 3, True)
    assert config == EngineConfig()
    monkeypatch.setenv(LANES, "4")
    assert config.resolved().lanes == 4
    assert resolved.lanes == 3


def test_what_is_given_comes_before_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(HOME, str(tmp_path / "other"))
    monkeypatch.setenv(LANES, "7")
    monkeypatch.setenv(OFFLINE, "1")
    config = EngineConfig(lanes=2, home=tmp_path / "home", offline=False).resolved()
    assert (config.lanes, config.home, config.offline) == (2, tmp_path / "home", False)


def test_an_odd_variable_that_is_not_needed_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LANES, "many")
    monkeypatch.setenv(OFFLINE, "perhaps")
    assert EngineConfig(lanes=1, offline=True).resolved().lanes == 1


def test_resolving_twice_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(HOME, str(tmp_path))
    config = EngineConfig(lanes=2).resolved()
    monkeypatch.setenv(HOME, str(tmp_path / "other"))
    assert config.resolved() == config


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", 1), (" 8 ", 8), ("064", 64), ("", None), ("  ", None)],
)
def test_lanes_are_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, text: str, expected: int | None
) -> None:
    monkeypatch.setenv(LANES, text)
    assert EngineConfig().resolved().lanes == expected


@pytest.mark.parametrize(
    "text", ["0", "-1", "1.5", "two", "1 2", "0x2", "\u00b2", "1_0", "9" * 5000]
)
def test_lanes_that_are_no_number_are_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(LANES, text)
    with pytest.raises(SettingError) as caught:
        EngineConfig().resolved()
    assert caught.value.name == LANES


@pytest.mark.parametrize("text", ["1", "true", "TRUE", "yes", "on", "On", " 1 "])
@pytest.mark.parametrize("name", [OFFLINE, "HF_HUB_OFFLINE"])
def test_offline_is_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv(name, text)
    assert EngineConfig().resolved().offline is True
    assert EngineConfig(offline=False).resolved().offline is False


@pytest.mark.parametrize("text", ["0", "false", "No", "off", "", " "])
@pytest.mark.parametrize("name", [OFFLINE, "HF_HUB_OFFLINE"])
def test_online_is_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv(name, text)
    assert EngineConfig().resolved().offline is False
    assert EngineConfig(offline=True).resolved().offline is True


@pytest.mark.parametrize("text", ["2", "maybe", "-1", "y"])
@pytest.mark.parametrize("name", [OFFLINE, "HF_HUB_OFFLINE"])
def test_offline_that_is_neither_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(SettingError) as caught:
        EngineConfig().resolved()
    assert caught.value.name == name


def test_our_own_word_on_offline_comes_before_the_hubs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv(OFFLINE, "0")
    assert EngineConfig().resolved().offline is False


def test_a_home_may_be_a_path_a_text_or_relative(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    for home in ("store", "./store", Path("store"), "~/store", tmp_path / "store"):
        assert EngineConfig(home=home).home_path == tmp_path / "store"
        monkeypatch.setenv(HOME, str(home))
        assert EngineConfig().home_path == tmp_path / "store"
    # Where it was when it was resolved is where it stays.
    resolved = EngineConfig(home="store").resolved()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert resolved.home_path == tmp_path / "store"


def test_the_home_of_an_unknown_user_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError):
        EngineConfig(home="~no-such-user-here/store").resolved()
    monkeypatch.setenv(HOME, "~no-such-user-here/store")
    with pytest.raises(SettingError) as caught:
        EngineConfig().resolved()
    assert caught.value.name == HOME


def test_a_config_is_a_value(tmp_path: Path) -> None:
    config = EngineConfig(lanes=2, home=tmp_path, offline=True)
    assert pickle.loads(pickle.dumps(config)) == config
    assert copy.deepcopy(config) == config
    assert hash(dataclasses.replace(config)) == hash(config)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.lanes = 3  # type: ignore[misc]


def test_importing_reads_no_variable() -> None:
    source = str(Path(onnx_embeddings.__file__).parent.parent)
    code = (
        f"import sys; sys.path.insert(0, {source!r})\n"
        "import onnx_embeddings.config as config\n"
        "made = config.EngineConfig()\n"
        "import os\n"
        f"os.environ[{LANES!r}] = '5'; os.environ[{OFFLINE!r}] = '0'\n"
        "print(made.resolved().lanes, made.resolved().offline)"
    )
    environment = os.environ | {LANES: "many", OFFLINE: "perhaps", HOME: "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        timeout=60,
    )
    assert done.stdout.split() == ["5", "False"]


def test_an_engine_shows_the_config_that_it_resolved(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME, str(tmp_path / "store"))
    monkeypatch.setenv(LANES, "3")
    with onnx_embeddings.load(tiny_folder) as engine:
        assert engine.config.lanes == 3
        assert engine.config.home == tmp_path / "store"
    assert (tmp_path / "store" / "compiled").is_dir()


def test_no_variable_is_written(tiny_folder: Path, tmp_path: Path) -> None:
    before = dict(os.environ)
    config = EngineConfig(home=tmp_path / "store", offline=True, lanes=2)
    with onnx_embeddings.load(tiny_folder, config=config) as engine:
        engine.embed_documents(["a", "b"])
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("given", "environment", "resolved"),
    [
        ("auto", None, "auto"),
        ("auto", "", "auto"),
        ("auto", " Auto ", "auto"),
        ("auto", "off", None),
        ("auto", "None", None),
        ("auto", "/vectors", Path("/vectors")),
        ("auto", "~/vectors", Path("/home/somebody/vectors")),
        (None, "/vectors", None),
        ("/mine", "off", Path("/mine")),
        (Path("mine"), "/vectors", Path.cwd() / "mine"),
        ("~/mine", None, Path("/home/somebody/mine")),
    ],
)
def test_the_cache_is_what_was_given_or_what_the_environment_says(
    given: Any, environment: str | None, resolved: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(Path("/home/somebody")))
    if environment is not None:
        monkeypatch.setenv(CACHE, environment)
    assert EngineConfig(cache=given).resolved().cache == resolved


def test_folders_are_those_of_where_an_engine_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    monkeypatch.chdir(here)
    config = EngineConfig(cache="vectors", home="home")
    engine = Engine(ModelRequest(model="./model"), config)
    monkeypatch.chdir(there)
    assert engine.config == EngineConfig(cache=here / "vectors", home=here / "home")
    assert engine.config.resolved().cache == here / "vectors"
    for same in (EngineConfig(), EngineConfig(cache=None, home="~/x"), EngineConfig(cache="AUTO")):
        assert same.absolute() == same
    assert EngineConfig(cache="AUTO") == EngineConfig()
