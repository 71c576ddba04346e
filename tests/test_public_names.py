from __future__ import annotations

import inspect
import subprocess
import sys
import types
from importlib import resources
from pathlib import Path

import pytest

import onnx_embeddings
from onnx_embeddings import errors

HEAVY = [
    "numpy",
    "onnxruntime",
    "tokenizers",
    "huggingface_hub",
    "onnx",
    "safetensors",
    "ml_dtypes",
    "diskcache",
    "filelock",
    "tqdm",
    "platformdirs",
    "tomllib",
    "importlib.metadata",
    "asyncio",
    "urllib.request",
]


def python(code: str) -> str:
    """What a fresh Python prints that can import the package and nothing of ours."""
    source = str(Path(onnx_embeddings.__file__).parent.parent)
    code = f"import sys; sys.path.insert(0, {source!r})\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def test_the_list_of_public_names_is_sorted_and_complete() -> None:
    names = onnx_embeddings.__all__
    # Constants, classes, functions: as the linter sorts them.
    assert names == sorted(names, key=lambda name: (not name.isupper(), name))
    assert len(names) == len(set(names))
    assert dir(onnx_embeddings) == sorted(names)
    for name in names:
        assert getattr(onnx_embeddings, name) is not None


def test_nothing_of_ours_is_there_without_being_named() -> None:
    ours = {
        name
        for name, value in vars(onnx_embeddings).items()
        if not name.startswith("_")
        and not isinstance(value, types.ModuleType)
        and getattr(value, "__module__", "").startswith("onnx_embeddings")
    }
    assert ours <= set(onnx_embeddings.__all__)


def test_the_public_names_are_those_that_were_promised() -> None:
    assert set(onnx_embeddings.__all__) == {
        "CatalogModel",
        "DEFAULT_MODEL",
        "Engine",
        "EngineConfig",
        "ModelRequest",
        "ModelSpec",
        "OnnxEmbeddingsError",
        "Pooling",
        "Precision",
        "Similarity",
        "__version__",
        "errors",
        "list_models",
        "load",
        "load_shared",
    }


def test_a_star_import_gives_all_of_them() -> None:
    printed = python(
        "from onnx_embeddings import *\n"
        "import onnx_embeddings\n"
        "print(all(name in globals() for name in onnx_embeddings.__all__))"
    )
    assert printed == "True"


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'onnx_embeddings' has no attribute 'nope'"):
        _ = onnx_embeddings.nope
    assert not hasattr(onnx_embeddings, "__wrapped__")


def test_importing_the_package_loads_nothing_heavy() -> None:
    printed = python(
        "before = set(sys.modules)\n"
        "import onnx_embeddings\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = set(printed.split())
    assert "onnx_embeddings" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_making_a_request_and_a_config_loads_nothing_heavy() -> None:
    printed = python(
        "before = set(sys.modules)\n"
        "from onnx_embeddings import EngineConfig, ModelRequest\n"
        "request = ModelRequest(model='org/name', dim=5)\n"
        "assert ModelRequest.from_dict(request.to_dict()) == request\n"
        "EngineConfig(lanes=2)\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    assert set(printed.split()).isdisjoint(HEAVY)


def test_errors_are_public_and_under_one_root() -> None:
    classes = [value for value in vars(errors).values() if inspect.isclass(value)]
    ours = [value for value in classes if issubclass(value, Exception)]
    assert onnx_embeddings.OnnxEmbeddingsError in ours
    for error in ours:
        assert issubclass(error, onnx_embeddings.OnnxEmbeddingsError)
        assert error.__name__.endswith("Error")


def test_the_tree_in_the_docstring_names_every_error() -> None:
    for value in vars(errors).values():
        if inspect.isclass(value) and issubclass(value, Exception):
            assert value.__name__ in str(errors.__doc__)


def test_the_package_says_that_it_is_typed() -> None:
    assert resources.files("onnx_embeddings").joinpath("py.typed").is_file()


def test_every_public_thing_has_a_docstring() -> None:
    for name in onnx_embeddings.__all__:
        value = getattr(onnx_embeddings, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value)
            for member, attribute in inspect.getmembers(value, inspect.isfunction):
                if not member.startswith("_"):
                    assert inspect.getdoc(attribute), f"{name}.{member}"
