"""Who takes part, and what is asked of everybody.

Each is set up as its own documentation tells a user to, and nothing is tuned. Libraries are
imported by the contestant that needs them, so that a process holds one contestant and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
from benchmarks import peers

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt
    from benchmarks.lab import Places

    Vectors = npt.NDArray[np.float32]
    Counts = npt.NDArray[np.int64]

PRECISIONS = ("fp32", "int8")  # ours; one more here is one more everywhere


class Embedder(Protocol):
    """What the comparison asks of everybody."""

    def embed(self, texts: list[str]) -> Vectors:
        """(N, D) vectors of documents."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """(1, D) vector of one query."""
        ...

    def count_tokens(self, texts: list[str]) -> Counts | None:
        """(N,) tokens the model sees of each text, after the cut; None if it can't say."""
        ...

    def threads(self) -> dict[str, int]:
        """What its own settings say about threads."""
        ...


class Ours:
    """onnx-embeddings without a cache."""

    def __init__(self, places: Places, precision: str) -> None:
        import onnx_embeddings

        config = onnx_embeddings.EngineConfig(cache=None, home=places.home)
        self.engine = onnx_embeddings.load(places.model, precision=precision, config=config)

    def embed(self, texts: list[str]) -> Vectors:
        """All texts in one call."""
        return self.engine.embed_documents(texts)

    def embed_query(self, text: str) -> Vectors:
        """One query in a call of its own."""
        return self.engine.embed_queries([text])

    def count_tokens(self, texts: list[str]) -> Counts:
        """The engine counts before the cut; here after it."""
        counts = np.asarray(self.engine.count_tokens(texts), dtype=np.int64)
        return np.minimum(counts, self.engine.spec.max_tokens)

    def threads(self) -> dict[str, int]:
        """Lanes of one thread each."""
        return {"lanes": self.engine.config.lanes or 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One row of the result.

    Attributes:
        make: loads the model.
        like_fp32: whether its vectors must be those of the fp32 model, to a cosine of 0.999.
        same_tokens: whether it uses the same tokenizer.
        tried_batch_of: a library of which only the faster batch size stays after the first round.
        not_on: workload -> why it does not take part there.
    """

    make: Callable[[Places], Embedder]
    like_fp32: bool = True
    same_tokens: bool = True
    tried_batch_of: str | None = None
    not_on: tuple[tuple[str, str], ...] = ()


def ours(precision: str) -> str:
    """The name of our row."""
    return f"onnx-embeddings, {precision}"


FP32, INT8 = ours("fp32"), ours("int8")
FASTEMBED, LIBEMBEDDING = "FastEmbed", "libembedding-ng"
TORCH, ST_ONNX = "sentence-transformers, PyTorch", "sentence-transformers, ONNX"
CHROMA, MODEL2VEC = "Chroma's built-in function", "model2vec, potion-base-8M"
BATCHES = (32, 8)

CONTESTANTS: dict[str, Contestant] = {
    **{
        ours(precision): Contestant(
            make=partial(Ours, precision=precision), like_fp32=precision == "fp32"
        )
        for precision in PRECISIONS
    },
    FASTEMBED: Contestant(make=peers.FastEmbed),
    **{
        f"{FASTEMBED}, batch {size}": Contestant(
            make=partial(peers.FastEmbed, batch_size=size), tried_batch_of=FASTEMBED
        )
        for size in BATCHES
    },
    LIBEMBEDDING: Contestant(make=peers.LibEmbedding),
    **{
        f"{LIBEMBEDDING}, batch {size}": Contestant(
            make=partial(peers.LibEmbedding, batch_size=size), tried_batch_of=LIBEMBEDDING
        )
        for size in BATCHES
    },
    TORCH: Contestant(make=partial(peers.SentenceTransformers, backend="torch")),
    ST_ONNX: Contestant(make=partial(peers.SentenceTransformers, backend="onnx")),
    CHROMA: Contestant(
        make=peers.Chroma,
        not_on=(("short", "pads every text to 256 tokens: a title takes it as long as any text"),),
    ),
    MODEL2VEC: Contestant(make=peers.Model2Vec, like_fp32=False, same_tokens=False),
}

LONE = (*map(ours, PRECISIONS), FASTEMBED, TORCH)
START = (*map(ours, PRECISIONS), FASTEMBED)
QUALITY = (*map(ours, PRECISIONS), MODEL2VEC)


def start_code(name: str, places: Places) -> str:
    """A whole program: import, load from disk, embed one text."""
    if name == FASTEMBED:
        return peers.fastembed_start(places)
    return (
        "import onnx_embeddings as library\n"
        f"config = library.EngineConfig(cache=None, home={str(places.home)!r})\n"
        f"engine = library.load({str(places.model)!r},\n"
        f"    precision={name.rsplit(', ', 1)[1]!r}, config=config)\n"
        "assert engine.embed_queries(['first vector']).shape == (1, 384)\n"
    )
