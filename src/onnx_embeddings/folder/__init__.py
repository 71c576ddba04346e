"""A model folder in, its files and its spec out.

`layout` says which files; all of them are read as hostile input.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onnx_embeddings import catalog, layout
from onnx_embeddings.documents import read_object
from onnx_embeddings.errors import ModelFormatError, SettingError
from onnx_embeddings.folder.limits import longest_text
from onnx_embeddings.folder.modules import read_pooling, read_prompts, read_similarity
from onnx_embeddings.folder.tokenizer import TokenizerFiles, tokenizer_digest, tokenizer_files
from onnx_embeddings.spec import ModelSpec, Pooling, Similarity

if TYPE_CHECKING:
    from pathlib import Path

    from onnx_embeddings.arrays import Graph
    from onnx_embeddings.request import ModelRequest
    from onnx_embeddings.store import Store

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFolder:
    """The files of a model, and what they say.

    Attributes:
        path: the folder.
        model: the model's name for people, as it was asked for.
        name: the last part of it, as a part of file names.
        config: config.json, empty where there is none.
        weights: the safetensors files, empty where there is a graph.
        compiled: the folder with the graph of a packed model, or None.
        ready: the ONNX file that is run as it is, or None where the weights are compiled.
        ready_data: the files with the ready graph's weights, where they are not inside.
        variant: the ready file's name in the folder, where one was asked for.
        tokenizer: the tokenizer's files.
        pooling: how token vectors become one vector.
        normalize: whether vectors have unit length.
        max_tokens: longest text, special tokens included, for this request.
        query_prompt: the model's own, before what the request says.
        document_prompt: the model's own, before what the request says.
        similarity: how two vectors are compared.
    """

    path: Path
    model: str
    name: str
    config: dict[str, Any]
    weights: tuple[Path, ...]
    compiled: Path | None
    ready: Path | None
    ready_data: tuple[Path, ...]
    variant: str | None
    tokenizer: TokenizerFiles
    pooling: Pooling
    normalize: bool
    max_tokens: int
    query_prompt: str
    document_prompt: str
    similarity: Similarity

    def spec(self, request: ModelRequest, graph: Graph, store: Store) -> ModelSpec:
        """What the request resolves to in this folder.

        Raises:
            SettingError: the request asks for something that this model does not have.
        """
        if request.dim is not None and request.dim > graph.hidden_size:
            raise SettingError(
                "dim", request.dim, f"this model's vectors have {graph.hidden_size} numbers"
            )
        return ModelSpec(
            model=request.model,
            weights=graph.weights,
            tokenizer=tokenizer_digest(self.tokenizer, store),
            pooling=self.pooling,
            normalize=self.normalize,
            dim=request.dim or graph.hidden_size,
            precision=graph.precision,
            scheme=graph.scheme,
            max_tokens=self.max_tokens,
            long_text=request.long_text,
            query_prompt=_first(request.query_prompt, self.query_prompt),
            document_prompt=_first(request.document_prompt, self.document_prompt),
            similarity=self.similarity,
            variant=self.variant,
        )


def read(path: Path, request: ModelRequest, *, packed: bool = True) -> ModelFolder:
    """The files of the model in this folder that the request needs.

    Args:
        path: the folder.
        request: the model, and how it is used.
        packed: see `layout.choose`.

    Raises:
        ModelFormatError: a file is missing, damaged or of a kind that is not supported.
        SettingError: the request asks for something that this model does not have.
    """
    try:
        return _read(path, request, packed=packed)
    except OSError as error:  # no right to read, a folder in the place of a file, an absurd name
        raise ModelFormatError(path, f"cannot be read: {error}") from error


def _read(path: Path, request: ModelRequest, *, packed: bool) -> ModelFolder:
    files = layout.OnDisk(path)
    found = layout.choose(files, variant=request.variant, packed=packed)
    _check_there(files, found)
    transformer = path / found.transformer
    config = read_object(transformer / "config.json")
    tokenizer_config = read_object(transformer / "tokenizer_config.json")
    sentence_configs = (read_object(path / name) for name in found.sentence_configs)
    sentence_config = next((values for values in sentence_configs if values), {})
    pooling, prompt_outside = _pooling(path, found)
    query_prompt, document_prompt = read_prompts(path)
    known = None if request.folder is not None else catalog.find(request.model)
    if known is not None:
        # Many repositories leave it to their card to say what belongs before a text.
        query_prompt = query_prompt or known.query_prompt or ""
        document_prompt = document_prompt or known.document_prompt or ""
    used = (
        _first(request.query_prompt, query_prompt),
        _first(request.document_prompt, document_prompt),
    )
    if prompt_outside and any(used):
        raise ModelFormatError(
            path / str(found.pooling),
            "include_prompt is false: prompts that are not pooled are not supported yet",
        )
    return ModelFolder(
        path=path,
        # A folder's path is nobody's business but this machine's.
        model=request.model if request.folder is None else _name(request.model),
        name=_name(request.model),
        config=config,
        weights=tuple(path / name for name in found.weights),
        compiled=path / layout.COMPILED if found.compiled else None,
        ready=None if found.ready is None else path / found.ready,
        ready_data=tuple(path / name for name in found.ready_data),
        variant=None if request.variant is None else found.ready,
        tokenizer=tokenizer_files(
            path / found.tokenizer, config, tokenizer_config, sentence_config
        ),
        pooling=pooling,
        normalize=found.normalize,
        max_tokens=longest_text(
            request.max_tokens, transformer, config, tokenizer_config, sentence_config
        ),
        query_prompt=query_prompt,
        document_prompt=document_prompt,
        similarity=read_similarity(path),
    )


def _check_there(files: layout.OnDisk, found: layout.Layout) -> None:
    """Raise if a file is missing that nothing reads before the model is compiled or run."""
    for name in found.weights:
        if found.index is not None and not (files.path / name).is_file():
            reason = f"is missing; {files.place(found.index).name} names it"
            raise ModelFormatError(files.place(name), reason)
        if not files.has(name):
            pickled = any(name.endswith(".bin") for name in files.names(found.transformer))
            raise ModelFormatError(
                files.place(""),
                "has neither model.safetensors nor an ONNX file",
                "its .bin files are pickles, which are never read: save it as safetensors"
                if pickled
                else None,
            )
    if found.ready is not None and not files.has(found.ready):
        raise ModelFormatError(files.place(found.ready), "there is no such file")
    if found.config is not None and not files.has(found.config):
        raise ModelFormatError(files.place(found.config), "is missing")
    if not files.has(found.tokenizer):
        raise ModelFormatError(files.place(""), "has neither tokenizer.json nor vocab.txt")


def _pooling(path: Path, found: layout.Layout) -> tuple[Pooling, bool]:
    """How token vectors become one vector, and whether prompts are left out of that."""
    if found.pooling is not None:
        return read_pooling(path / found.pooling)
    logger.warning(
        "%s has no modules.json, so nothing says how its token vectors become one vector: "
        "taking their mean, not normalised, as sentence-transformers does",
        path,
    )
    return Pooling.MEAN, False


def _name(model: str) -> str:
    # Part of a file name, which must not grow too long: some letters take four bytes.
    name = re.sub(r"[^\w.-]", "_", model.rstrip("/\\").rpartition("/")[2])
    return name[:40] or "model"


def _first(asked: str | None, own: str) -> str:
    return own if asked is None else asked
