"""The other libraries, each behind the same four calls, and the folder each wants its model in.

One model.safetensors for all: those that want an ONNX file get Optimum's plain fp32 export of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from benchmarks.corpus import CUT

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt
    from benchmarks.lab import Places

    Vectors = npt.NDArray[np.float32]
    Counts = npt.NDArray[np.int64]


def exported(places: Places) -> Path:
    """Optimum's export; its tokenizer_config.json says where to cut, which FastEmbed reads."""
    return places.work / "optimum"


def for_libembedding(places: Places) -> Path:
    """The export once more; this one reads its cut from config.json."""
    return places.work / "libembedding"


def for_sentence_transformers(places: Places) -> Path:
    """The authors' folder with the export in it, where the ONNX backend looks for it."""
    return places.work / "sentence-transformers"


def for_chroma(places: Places) -> Path:
    """What Chroma would fetch and unpack itself; it checks no file that is there."""
    return places.work / "chroma"


def potion(places: Places) -> Path:
    """model2vec's potion-base-8M."""
    return places.work / "potion-base-8M"


class FastEmbed:
    """FastEmbed with the same weights, registered as a custom model."""

    def __init__(self, places: Places, batch_size: int | None = None) -> None:
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
            "benchmark/all-MiniLM-L6-v2", specific_model_path=str(exported(places))
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


def fastembed_start(places: Places) -> str:
    """FastEmbed's whole program."""
    return (
        "from fastembed import TextEmbedding\n"
        "from fastembed.common.model_description import ModelSource, PoolingType\n"
        "TextEmbedding.add_custom_model(model='benchmark/minilm', pooling=PoolingType.MEAN,\n"
        "    normalization=True, sources=ModelSource(hf='benchmark/minilm'), dim=384,\n"
        "    model_file='model.onnx')\n"
        "model = TextEmbedding('benchmark/minilm',\n"
        f"    specific_model_path={str(exported(places))!r})\n"
        "assert next(iter(model.query_embed('first vector'))).shape == (384,)\n"
    )


class LibEmbedding:
    """libembedding-ng, C++ around an ONNX Runtime of its own."""

    def __init__(self, places: Places, batch_size: int | None = None) -> None:
        options = {} if batch_size is None else {"batch_size": batch_size}
        self._model: Any = import_module("libembedding").TextEmbedding(
            str(for_libembedding(places)), offline=True, **options
        )
        if self._model.info().max_length != CUT:
            raise RuntimeError(f"cuts at {self._model.info().max_length} tokens")

    def embed(self, texts: list[str]) -> Vectors:
        """All texts in one call."""
        vectors: Vectors = self._model.embed(texts)
        return vectors

    def embed_query(self, text: str) -> Vectors:
        """One query in a call of its own."""
        return self.embed([text])

    def count_tokens(self, texts: list[str]) -> None:  # noqa: ARG002
        """It does not say; with other tokens its vectors would be other vectors."""
        return

    def threads(self) -> dict[str, int]:
        """Its setting; 0 is its default."""
        return {"num_threads": self._model.info().num_threads}


class SentenceTransformers:
    """sentence-transformers at its default batch size of 32."""

    def __init__(self, places: Places, backend: str) -> None:
        folder, options = places.model, {}
        if backend == "onnx":
            folder = for_sentence_transformers(places)
            options["model_kwargs"] = {
                "file_name": "onnx/model.onnx",
                "provider": "CPUExecutionProvider",
            }
        library = import_module("sentence_transformers")
        self._model = library.SentenceTransformer(
            str(folder), device="cpu", backend=backend, **options
        )
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


class Chroma:
    """What a Chroma collection uses when it is given nothing."""

    def __init__(self, places: Places) -> None:
        function: Any = import_module("chromadb.utils.embedding_functions").ONNXMiniLM_L6_V2
        function.DOWNLOAD_PATH = for_chroma(places)
        self._function = function()
        self._function(["loads with the first text"])

    def embed(self, texts: list[str]) -> Vectors:
        """All texts in one call."""
        return np.stack(self._function(texts))

    def embed_query(self, text: str) -> Vectors:
        """One query in a call of its own."""
        return self.embed([text])

    def count_tokens(self, texts: list[str]) -> Counts:
        """From its own tokenizer; it counts no padding."""
        encodings = self._function.tokenizer.encode_batch(texts)
        return np.array([sum(encoding.attention_mask) for encoding in encodings], dtype=np.int64)

    def threads(self) -> dict[str, int]:
        """ONNX Runtime's setting; 0 is its default, a thread per core."""
        options = self._function.model.get_session_options()
        return {"intra_op_num_threads": options.intra_op_num_threads}


class Model2Vec:
    """A table of static vectors: no model runs at all. The other end of speed and quality."""

    def __init__(self, places: Places) -> None:
        library = import_module("model2vec")
        self._model = library.StaticModel.from_pretrained(str(potion(places)), force_download=False)

    def embed(self, texts: list[str]) -> Vectors:
        """All texts in one call."""
        return np.asarray(self._model.encode(texts), dtype=np.float32)

    def embed_query(self, text: str) -> Vectors:
        """One query in a call of its own."""
        return self.embed([text])

    def count_tokens(self, texts: list[str]) -> None:  # noqa: ARG002
        """Another tokenizer, so other tokens."""
        return

    def threads(self) -> dict[str, int]:
        """It has no setting."""
        return {}
