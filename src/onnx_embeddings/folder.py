"""A model folder in, its files and its spec out.

The layout is sentence-transformers': ``modules.json`` names a Transformer, a Pooling and maybe a
Normalize module, each with a folder of its own (the Transformer's is usually the root; Normalize
has none). Which limit on the length of a text wins, the first that is there:

1. the `max_tokens` asked for (an error where it is above the position table);
2. ``max_seq_length`` of sentence_bert_config.json;
3. ``model_max_length`` of tokenizer_config.json, unless it is a huge "not set";
4. the position table of config.json;
5. 512, with a warning.

2 and 3 never exceed 4. What tokenizer.json has baked in counts nowhere: it is the batch that the
exporter happened to make. All files are read as hostile input: sizes bounded, paths kept inside.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from onnx_embeddings.errors import ModelFormatError, SettingError
from onnx_embeddings.spec import ModelRequest, ModelSpec, Pooling

if TYPE_CHECKING:
    from pathlib import Path

    from onnx_embeddings.arrays import Graph

logger = logging.getLogger(__name__)

COMPILED_FAMILIES = ("bert",)
"""The `model_type` of the architectures that the compiler knows."""

_CONFIG_BYTES = 4 * 2**20
_TOKENIZER_BYTES = 256 * 2**20
_LONGEST_SANE = 10**7  # transformers writes 1e30 where no limit was set
_NO_LIMIT_KNOWN = 512

_POOLING_SWITCHES = {
    "pooling_mode_cls_token": Pooling.CLS,
    "pooling_mode_mean_tokens": Pooling.MEAN,
    "pooling_mode_max_tokens": Pooling.MAX,
    "pooling_mode_mean_sqrt_len_tokens": Pooling.MEAN_SQRT_LEN,
    "pooling_mode_weightedmean_tokens": Pooling.WEIGHTED_MEAN,
    "pooling_mode_lasttoken": Pooling.LAST,
}
_POOLING_NAMES = {
    "cls": Pooling.CLS,
    "mean": Pooling.MEAN,
    "max": Pooling.MAX,
    "mean_sqrt_len_tokens": Pooling.MEAN_SQRT_LEN,
    "weightedmean": Pooling.WEIGHTED_MEAN,
    "lasttoken": Pooling.LAST,
}
_TRANSFORMER_CONFIGS = tuple(
    f"sentence_{family}_config.json"
    for family in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BertOptions:
    """How a BERT tokenizer is built where only its vocabulary is there."""

    lowercase: bool = True
    strip_accents: bool | None = None
    chinese_characters: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFiles:
    """A tokenizer's file, and the rules that other files of the model add.

    Attributes:
        path: tokenizer.json or vocab.txt.
        truncation_side: the side that is cut off.
        lowercase: whether texts are lower-cased before anything else.
        bert_options: for vocab.txt only.
        pad_id: the token that stands in empty places of a padded batch.
    """

    path: Path
    truncation_side: Literal["left", "right"] = "right"
    lowercase: bool = False
    bert_options: BertOptions = field(default_factory=BertOptions)
    pad_id: int = 0


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

    def spec(self, request: ModelRequest, graph: Graph) -> ModelSpec:
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
            tokenizer=_tokenizer_digest(self.tokenizer),
            pooling=self.pooling,
            normalize=self.normalize,
            dim=request.dim or graph.hidden_size,
            precision=graph.precision,
            scheme=graph.scheme,
            max_tokens=self.max_tokens,
            long_text=request.long_text,
            query_prompt=_first(request.query_prompt, self.query_prompt),
            document_prompt=_first(request.document_prompt, self.document_prompt),
        )


def read(path: Path, request: ModelRequest) -> ModelFolder:
    """The files of the model in this folder that the request needs.

    Raises:
        ModelFormatError: a file is missing, damaged or of a kind that is not supported.
        SettingError: the request asks for something that this model does not have.
    """
    modules = _modules(path)
    transformer = modules.transformer
    config = _json(transformer / "config.json")
    tokenizer_config = _json(transformer / "tokenizer_config.json")
    sentence_config = next(
        (values for name in _TRANSFORMER_CONFIGS if (values := _json(transformer / name))), {}
    )
    weights, ready = _weights_or_ready(path, transformer, config, request.variant)
    query_prompt, document_prompt = _prompts(path)
    if modules.prompt_outside and (query_prompt or document_prompt):
        raise ModelFormatError(
            modules.pooling_file,
            "include_prompt is false: prompts that are not pooled are not supported yet",
        )
    return ModelFolder(
        path=path,
        name=re.sub(r"[^\w.-]", "_", request.model.rstrip("/\\").rpartition("/")[2]) or "model",
        config=config,
        weights=weights,
        ready=ready,
        ready_data=() if ready is None else _data_beside(ready),
        tokenizer=_tokenizer(path, transformer, config, tokenizer_config, sentence_config),
        pooling=modules.pooling,
        normalize=modules.normalize,
        max_tokens=_max_tokens(
            request.max_tokens, transformer, config, tokenizer_config, sentence_config
        ),
        query_prompt=query_prompt,
        document_prompt=document_prompt,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Modules:
    """What modules.json and the folders that it names say."""

    transformer: Path
    pooling: Pooling
    pooling_file: Path
    normalize: bool
    prompt_outside: bool


def _modules(path: Path) -> _Modules:
    file = path / "modules.json"
    if not file.exists():
        logger.warning(
            "%s has no modules.json, so nothing says how its token vectors become one vector: "
            "taking their mean, not normalised, as sentence-transformers does",
            path,
        )
        return _Modules(
            transformer=path,
            pooling=Pooling.MEAN,
            pooling_file=file,
            normalize=False,
            prompt_outside=False,
        )
    folders: dict[str, Path] = {}
    for module in _json_list(file):
        kind = str(module.get("type", "")).rpartition(".")[2]
        if kind not in {"Transformer", "Pooling", "Normalize"} or kind in folders:
            raise ModelFormatError(file, f"a module {kind or 'without a type'} is not supported")
        if kind != "Normalize" and "Normalize" in folders:
            raise ModelFormatError(file, f"a module {kind} behind Normalize is not supported")
        folders[kind] = _inside(path, module.get("path", ""), file)
    for kind in ("Transformer", "Pooling"):
        if kind not in folders:
            raise ModelFormatError(file, f"names no {kind} module")
    pooling_file = folders["Pooling"] / "config.json"
    pooling_config = _json(pooling_file, required=True)
    return _Modules(
        transformer=folders["Transformer"],
        pooling=_pooling(pooling_config, pooling_file),
        pooling_file=pooling_file,
        normalize="Normalize" in folders,
        prompt_outside=pooling_config.get("include_prompt") is False,
    )


def _pooling(config: dict[str, Any], file: Path) -> Pooling:
    modes = [mode for switch, mode in _POOLING_SWITCHES.items() if config.get(switch)]
    name = config.get("pooling_mode")
    if isinstance(name, str):
        if name not in _POOLING_NAMES:
            raise ModelFormatError(file, f"pooling_mode {name!r} is not known")
        modes = [_POOLING_NAMES[name]]
    if len(modes) != 1:
        found = ", ".join(modes) or "none"
        raise ModelFormatError(file, f"must switch on one way of pooling, found {found}")
    return modes[0]


def _weights_or_ready(
    path: Path, transformer: Path, config: dict[str, Any], variant: str | None
) -> tuple[tuple[Path, ...], Path | None]:
    """The safetensors files to compile, or else the ONNX file to run as it is."""
    if variant is not None:
        ready = _inside(path, variant, path)
        if not ready.is_file():
            raise ModelFormatError(ready, "there is no such file")
        return (), ready
    weights = _safetensors(transformer)
    if weights and config.get("model_type") in COMPILED_FAMILIES:
        return weights, None
    ready = _ready(path, transformer)
    if ready is not None:
        return (), ready
    if weights:
        family = config.get("model_type")
        raise ModelFormatError(
            path,
            f"holds weights of a {family!r} model, and only {', '.join(COMPILED_FAMILIES)} "
            "can be compiled yet",
            "export it to ONNX (onnx/model.onnx in the same folder), token vectors as output",
        )
    raise ModelFormatError(path, "has neither model.safetensors nor an ONNX file")


def _safetensors(folder: Path) -> tuple[Path, ...]:
    index = folder / "model.safetensors.index.json"
    if index.exists():
        shards = _json(index).get("weight_map")
        if not isinstance(shards, dict) or not shards:
            raise ModelFormatError(index, "names no files")
        files = tuple(_inside(folder, name, index) for name in sorted({*shards.values()}))
        for file in files:
            if not file.is_file():
                raise ModelFormatError(file, f"is missing; {index.name} names it")
        return files
    single = folder / "model.safetensors"
    return (single,) if single.is_file() else ()


def _ready(path: Path, transformer: Path) -> Path | None:
    """The usual place first; any other ONNX file only where it is the only one."""
    for folder in dict.fromkeys((path, transformer)):
        for name in ("onnx/model.onnx", "model.onnx"):
            if (folder / name).is_file():
                return folder / name
    others = sorted([*path.glob("*.onnx"), *path.glob("onnx/*.onnx")])
    if len(others) > 1:
        names = ", ".join(str(file.relative_to(path)) for file in others)
        raise ModelFormatError(path, f"has several ONNX files: {names}", "say which: variant=…")
    return others[0] if others else None


def _data_beside(ready: Path) -> tuple[Path, ...]:
    """The external data files of an ONNX file: named after it, in the same folder."""
    names = (f"{ready.name}_data*", f"{ready.name}.data*", f"{ready.stem}.data*")
    return tuple(sorted({file for name in names for file in ready.parent.glob(name)}))


def _tokenizer(
    path: Path,
    transformer: Path,
    config: dict[str, Any],
    tokenizer_config: dict[str, Any],
    sentence_config: dict[str, Any],
) -> TokenizerFiles:
    for name in ("tokenizer.json", "vocab.txt"):
        for folder in dict.fromkeys((transformer, path)):
            file = folder / name
            if file.is_file():
                break
        else:
            continue
        break
    else:
        raise ModelFormatError(path, "has neither tokenizer.json nor vocab.txt")
    if file.stat().st_size > _TOKENIZER_BYTES:
        raise ModelFormatError(file, f"is larger than {_TOKENIZER_BYTES // 2**20} MiB")
    accents = tokenizer_config.get("strip_accents")
    pad_id = config.get("pad_token_id")
    return TokenizerFiles(
        path=file,
        truncation_side="left" if tokenizer_config.get("truncation_side") == "left" else "right",
        lowercase=sentence_config.get("do_lower_case") is True,
        bert_options=BertOptions(
            lowercase=tokenizer_config.get("do_lower_case") is not False,
            strip_accents=accents if isinstance(accents, bool) else None,
            chinese_characters=tokenizer_config.get("tokenize_chinese_chars") is not False,
        ),
        pad_id=pad_id if type(pad_id) is int and pad_id >= 0 else 0,
    )


def _max_tokens(
    asked: int | None,
    transformer: Path,
    config: dict[str, Any],
    tokenizer_config: dict[str, Any],
    sentence_config: dict[str, Any],
) -> int:
    """The limit by the rule that this module's docstring gives."""
    positions = _limit(config.get("max_position_embeddings"))
    if asked is not None:
        if positions is not None and asked > positions:
            raise SettingError("max_tokens", asked, f"this model has {positions} positions")
        return asked
    own = _limit(sentence_config.get("max_seq_length"))
    own = own or _limit(tokenizer_config.get("model_max_length"))
    limits = [limit for limit in (own, positions) if limit is not None]
    if not limits:
        logger.warning(
            "%s does not say how long a text may be: cutting at %d tokens (set max_tokens)",
            transformer,
            _NO_LIMIT_KNOWN,
        )
        return _NO_LIMIT_KNOWN
    return min(limits)


def _limit(value: object) -> int | None:
    """A limit out of a file; None where it is missing, odd, or a huge "not set"."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 < value <= _LONGEST_SANE else None


def _prompts(path: Path) -> tuple[str, str]:
    """(query prompt, document prompt), as sentence-transformers picks them.

    Source: SentenceTransformer.encode_query and encode_document.
    """
    file = path / "config_sentence_transformers.json"
    values = _json(file)
    prompts = values.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(p, str) for p in prompts.values()):
        raise ModelFormatError(file, "prompts must map names to texts")
    default_name = values.get("default_prompt_name")
    if default_name is not None and default_name not in prompts:
        raise ModelFormatError(file, f"default_prompt_name {default_name!r} is not in prompts")
    default = prompts.get(default_name, "")
    query = prompts.get("query", default)
    for name in ("document", "passage", "corpus"):
        if name in prompts:
            return query, prompts[name]
    return query, default


def _tokenizer_digest(files: TokenizerFiles) -> str:
    """Digest of the rules that turn texts into ids; what the file has baked in is not one."""
    rules: dict[str, Any] = {"side": files.truncation_side, "lowercase": files.lowercase}
    if files.path.name == "vocab.txt":
        options = files.bert_options
        rules["bert"] = [options.lowercase, options.strip_accents, options.chinese_characters]
        rules["vocabulary"] = hashlib.sha256(files.path.read_bytes()).hexdigest()
        return _digest(rules)
    content = _json(files.path, most=_TOKENIZER_BYTES)
    rules |= {name: content[name] for name in content.keys() - {"truncation", "padding", "version"}}
    return _digest(rules)


def _digest(values: object) -> str:
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _first(asked: str | None, own: str) -> str:
    return own if asked is None else asked


def _inside(path: Path, name: object, file: Path) -> Path:
    """The path of a file or folder that `file` names, which must not lead out of the model."""
    if not isinstance(name, str):
        raise ModelFormatError(file, f"{name!r} is no path")
    parts = name.replace("\\", "/").split("/")
    if ".." in parts or name.startswith(("/", "\\")) or ":" in name:
        raise ModelFormatError(file, f"{name!r} leads out of the model's folder")
    return path.joinpath(*parts)


def _json(file: Path, *, required: bool = False, most: int = _CONFIG_BYTES) -> dict[str, Any]:
    """A JSON object; empty where the file is missing and not required."""
    if not required and not file.exists():
        return {}
    values = _json_value(file, most)
    if not isinstance(values, dict):
        raise ModelFormatError(file, "must hold a JSON object")
    return values


def _json_list(file: Path) -> list[dict[str, Any]]:
    values = _json_value(file, _CONFIG_BYTES)
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise ModelFormatError(file, "must hold a JSON list of objects")
    return values


def _json_value(file: Path, most: int) -> object:
    try:
        if file.stat().st_size > most:
            raise ModelFormatError(file, f"is larger than {most // 2**20} MiB")
        return json.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise ModelFormatError(file, "is missing") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, ModelFormatError):
            raise
        raise ModelFormatError(file, f"is not valid JSON: {error}") from error
