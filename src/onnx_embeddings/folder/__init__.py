"""A model folder in, its files and its spec out.

The layout is sentence-transformers': ``modules.json`` names a Transformer, a Pooling and maybe a
Normalize module, each with a folder of its own (the Transformer's is usually the root; Normalize
has none). All files are read as hostile input: sizes bounded, paths kept inside.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onnx_embeddings.errors import ModelFormatError, SettingError
from onnx_embeddings.folder.documents import read_object
from onnx_embeddings.folder.limits import longest_text
from onnx_embeddings.folder.modules import read_modules, read_prompts, read_similarity
from onnx_embeddings.folder.tokenizer import TokenizerFiles, tokenizer_digest, tokenizer_files
from onnx_embeddings.folder.weights import data_beside, weights_or_ready
from onnx_embeddings.spec import ModelSpec, Pooling, Similarity

if TYPE_CHECKING:
    from pathlib import Path

    from onnx_embeddings.arrays import Graph
    from onnx_embeddings.request import ModelRequest
    from onnx_embeddings.store import Store

_TRANSFORMER_CONFIGS = tuple(
    f"sentence_{family}_config.json"
    for family in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFolder:
    """The files of a model, and what they say.

    Attributes:
        path: the folder.
        name: the model's name for people: the last part of what was asked for.
        config: config.json, empty where there is none.
        weights: the safetensors files, empty where a ready graph is run.
        ready: the ONNX file that is run as it is, or None where the weights are compiled.
        ready_data: the files with the ready graph's weights, where they are not inside.
        tokenizer: the tokenizer's files.
        pooling: how token vectors become one vector.
        normalize: whether vectors have unit length.
        max_tokens: longest text, special tokens included, for this request.
        query_prompt: the model's own, before what the request says.
        document_prompt: the model's own, before what the request says.
        similarity: how two vectors are compared.
    """

    path: Path
    name: str
    config: dict[str, Any]
    weights: tuple[Path, ...]
    ready: Path | None
    ready_data: tuple[Path, ...]
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
        )


def read(path: Path, request: ModelRequest) -> ModelFolder:
    """The files of the model in this folder that the request needs.

    Raises:
        ModelFormatError: a file is missing, damaged or of a kind that is not supported.
        SettingError: the request asks for something that this model does not have.
    """
    try:
        return _read(path, request)
    except OSError as error:  # no right to read, a folder in the place of a file, an absurd name
        raise ModelFormatError(path, f"cannot be read: {error}") from error


def _read(path: Path, request: ModelRequest) -> ModelFolder:
    modules = read_modules(path)
    transformer = modules.transformer
    config = read_object(transformer / "config.json")
    tokenizer_config = read_object(transformer / "tokenizer_config.json")
    sentence_config = next(
        (values for name in _TRANSFORMER_CONFIGS if (values := read_object(transformer / name))), {}
    )
    weights, ready = weights_or_ready(path, transformer, config, request.variant)
    query_prompt, document_prompt = read_prompts(path)
    used = (
        _first(request.query_prompt, query_prompt),
        _first(request.document_prompt, document_prompt),
    )
    if modules.prompt_outside and any(used):
        raise ModelFormatError(
            modules.pooling_file,
            "include_prompt is false: prompts that are not pooled are not supported yet",
        )
    return ModelFolder(
        path=path,
        name=_name(request.model),
        config=config,
        weights=weights,
        ready=ready,
        ready_data=() if ready is None else data_beside(ready),
        tokenizer=tokenizer_files(path, transformer, config, tokenizer_config, sentence_config),
        pooling=modules.pooling,
        normalize=modules.normalize,
        max_tokens=longest_text(
            request.max_tokens, transformer, config, tokenizer_config, sentence_config
        ),
        query_prompt=query_prompt,
        document_prompt=document_prompt,
        similarity=read_similarity(path),
    )


def _name(model: str) -> str:
    # Part of a file name, which must not grow too long: some letters take four bytes.
    name = re.sub(r"[^\w.-]", "_", model.rstrip("/\\").rpartition("/")[2])
    return name[:40] or "model"


def _first(asked: str | None, own: str) -> str:
    return own if asked is None else asked
