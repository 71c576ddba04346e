"""Who takes part: each one set up as its own documentation tells a user to, and nothing tuned.

All use the same weights and cut at the same number of tokens. Libraries are imported by the
contestant that needs them, so that a process holds one contestant and nothing else.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from benchmarks.corpus import CUT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]
    Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of a comparison.

    Attributes:
        model: all-MiniLM-L6-v2 as its authors lay it out.
        work: ours to write in, outside the repository.
    """

    model: Path
    work: Path

    @property
    def onnx(self) -> Path:
        """The folder of the model as Optimum exports it."""
        return self.work / "optimum"

    @property
    def home(self) -> Path:
        """Where onnx-embeddings keeps its compiled model."""
        return self.work / "home"


class Contestant(Protocol):
    """What the comparison asks of everybody."""

    def embed(self, texts: list[str]) -> Vectors:
        """(N, D) vectors of documents."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """(1, D) vector of one query."""
        ...

    def count_tokens(self, texts: list[str]) -> Counts:
        """(N,) tokens the model sees of each text, after the cut."""
        ...

    def threads(self) -> dict[str, int]:
        """What its own settings say about threads."""
        ...


class Ours:
    """onnx-embeddings, fp32, without a cache."""

    def __init__(self, places: Places) -> None:
        import onnx_embeddings

        config = onnx_embeddings.EngineConfig(cache=None, home=places.home)
        self._engine = onnx_embeddings.load(places.model, precision="fp32", config=config)

    def embed(self, texts: list[str]) -> Vectors:
        """All texts in one call."""
        return self._engine.embed_documents(texts)

    def embed_query(self, text: str) -> Vectors:
        """One query in a call of its own."""
        return self._engine.embed_queries([text])

    def count_tokens(self, texts: list[str]) -> Counts:
        """The engine counts before the cut; here after it."""
        counts = np.asarray(self._engine.count_tokens(texts), dtype=np.int64)
        return np.minimum(counts, self._engine.spec.max_tokens)

    def threads(self) -> dict[str, int]:
        """Lanes of one thread each."""
        return {"lanes": self._engine.config.lanes or 0}


class FastEmbed:
    """FastEmbed with the same weights, registered as a custom model."""

    def __init__(self, places: Places, batch_size: int | None) -> None:
        fastembed = import_module("fastembed")
        description = import_module("fastembed.common.model_description")
        fastembed.TextEmbedding.add_custom_model(
            model="benchmark/all-MiniLM-L6-v2",
            pooling=description.PoolingType.MEAN,
            normalization=True,
            sources=description.ModelSource(hf="benchmark/all-MiniLM-L6-v2"),
            dim=384,
            model_file="model.onnx",
        )
        self._model = fastembed.TextEmbedding(
            "benchmark/all-MiniLM-L6-v2", specific_model_path=str(places.onnx)
        )
        self._options = {} if batch_size is None else {"batch_size": batch_size}

    def embed(self, texts: list[str]) -> Vectors:
        """All texts in one call."""
        return np.stack(list(self._model.embed(texts, **self._options)))

    def embed_query(self, text: str) -> Vectors:
        """One query in a call of its own."""
        return np.stack(list(self._model.query_embed(text)))

    def count_tokens(self, texts: list[str]) -> Counts:
        """From its own tokenizer: its public count is the sum over all texts."""
        encodings = self._model.model.tokenize(texts)
        return np.array([sum(encoding.attention_mask) for encoding in encodings], dtype=np.int64)

    def threads(self) -> dict[str, int]:
        """ONNX Runtime's setting; 0 is its default, a thread per core."""
        options = self._model.model.model.get_session_options()
        return {"intra_op_num_threads": options.intra_op_num_threads}


class SentenceTransformers:
    """sentence-transformers on PyTorch, at its default batch size of 32."""

    def __init__(self, places: Places) -> None:
        library = import_module("sentence_transformers")
        self._model = library.SentenceTransformer(str(places.model), device="cpu")
        self._model.max_seq_length = CUT

    def embed(self, texts: list[str]) -> Vectors:
        """All texts in one call."""
        return np.asarray(self._model.encode(texts, batch_size=32), dtype=np.float32)

    def embed_query(self, text: str) -> Vectors:
        """One query in a call of its own."""
        return np.asarray(self._model.encode_query([text]), dtype=np.float32)

    def count_tokens(self, texts: list[str]) -> Counts:
        """From the attention masks that its model would get."""
        masks = (self._model.preprocess([text])["attention_mask"] for text in texts)
        return np.array([int(mask.sum()) for mask in masks], dtype=np.int64)

    def threads(self) -> dict[str, int]:
        """PyTorch's setting."""
        return {"torch_num_threads": import_module("torch").get_num_threads()}


OURS = "onnx-embeddings"
FASTEMBED = "FastEmbed"
SENTENCE_TRANSFORMERS = "sentence-transformers, batch 32"

CONTESTANTS: dict[str, Callable[[Places], Contestant]] = {
    OURS: Ours,
    FASTEMBED: partial(FastEmbed, batch_size=None),
    "FastEmbed, batch 32": partial(FastEmbed, batch_size=32),
    "FastEmbed, batch 8": partial(FastEmbed, batch_size=8),
    SENTENCE_TRANSFORMERS: SentenceTransformers,
}


def start_code(name: str, places: Places) -> str:
    """A whole program: import, load from disk, embed one text."""
    if name == OURS:
        return (
            "import onnx_embeddings as library\n"
            f"config = library.EngineConfig(cache=None, home={str(places.home)!r})\n"
            f"engine = library.load({str(places.model)!r}, config=config)\n"
            "assert engine.embed_queries(['first vector']).shape == (1, 384)\n"
        )
    return (
        "from fastembed import TextEmbedding\n"
        "from fastembed.common.model_description import ModelSource, PoolingType\n"
        "TextEmbedding.add_custom_model(model='benchmark/minilm', pooling=PoolingType.MEAN,\n"
        "    normalization=True, sources=ModelSource(hf='benchmark/minilm'), dim=384,\n"
        "    model_file='model.onnx')\n"
        "model = TextEmbedding('benchmark/minilm',\n"
        f"    specific_model_path={str(places.onnx)!r})\n"
        "assert next(iter(model.query_embed('first vector'))).shape == (384,)\n"
    )


def export_for_fastembed(places: Places) -> None:
    """Export the model with Optimum, once, and make FastEmbed cut where the authors do.

    FastEmbed takes its cut from ``model_max_length`` in tokenizer_config.json.
    """
    if places.onnx.exists():
        return
    draft = places.work / "optimum.draft"
    shutil.rmtree(draft, ignore_errors=True)
    export: Any = import_module("optimum.exporters.onnx").main_export
    export(
        str(places.model),
        draft,
        task="feature-extraction",
        library_name="transformers",
        do_validation=False,
    )
    settings = draft / "tokenizer_config.json"
    config = json.loads(settings.read_text(encoding="utf-8"))
    config["model_max_length"] = CUT
    config.pop("max_length", None)
    settings.write_text(json.dumps(config, indent=1), encoding="utf-8")
    draft.rename(places.onnx)
