from __future__ import annotations

import itertools
import json
import logging
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import onnx_embeddings
from onnx_embeddings import EngineConfig, ModelRequest, Pooling, Similarity
from onnx_embeddings.errors import ModelFormatError, OnnxEmbeddingsError, SettingError
from onnx_embeddings.folder import ModelFolder, read
from onnx_embeddings.folder.tokenizer import BertOptions, tokenizer_digest
from onnx_embeddings.store import Store
from onnx_embeddings.testing import write_tiny_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MISSING: Any = object()
NOT_SET = 1_000_000_000_000_000_019_884_624_838_656  # what transformers writes for "no limit"
TEXTS = ["the cat sits", "a b c d e"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "model")


def edit(file: Path, **changes: Any) -> Path:
    """Change or take away fields of a JSON object; a file that is not there is made."""
    values = json.loads(file.read_text("utf-8")) if file.exists() else {}
    values |= changes
    values = {name: value for name, value in values.items() if value is not MISSING}
    file.write_text(json.dumps(values), encoding="utf-8")
    return file


def found(folder: Path, **request: Any) -> ModelFolder:
    return read(folder, ModelRequest(model=str(folder), **request))


def refusal(folder: Path, **request: Any) -> ModelFormatError:
    with pytest.raises(ModelFormatError) as caught:
        found(folder, **request)
    return caught.value


# How long a text may be.


@pytest.mark.parametrize(
    ("sentence", "tokenizer", "positions", "asked", "expected"),
    [
        (256, 512, 512, None, 256),
        (256, 128, 512, None, 256),
        (600, 128, 512, None, 512),
        (MISSING, 128, 512, None, 128),
        (MISSING, 600, 512, None, 512),
        (MISSING, MISSING, 512, None, 512),
        (MISSING, 128, MISSING, None, 128),
        (256, MISSING, MISSING, None, 256),
        (None, None, 512, None, 512),
        (None, 128, 512, None, 128),
        (MISSING, 1e30, 512, None, 512),
        (MISSING, NOT_SET, 512, None, 512),
        (1e30, 128, 512, None, 128),
        (0, 128, 512, None, 128),
        (-1, 128, 512, None, 128),
        (0.5, MISSING, 512, None, 512),
        (256, MISSING, 0.5, None, 256),
        ("512", 128, 512, None, 128),
        (True, 128, 512, None, 128),
        ([512], 128, 512, None, 128),
        (256.0, 128, 512, None, 256),
        (MISSING, 0, 512, None, 512),
        (MISSING, "64", 512, None, 512),
        (MISSING, False, 512, None, 512),
        (256, 512, 512, 300, 300),
        (256, 512, 512, 512, 512),
        (256, 512, 512, 3, 3),
        (MISSING, MISSING, MISSING, 700, 700),
        (MISSING, MISSING, "512", 700, 700),
    ],
)
def test_the_limit_is_the_first_that_is_said_and_within_the_positions(  # noqa: PLR0913, PLR0917
    folder: Path,
    sentence: object,
    tokenizer: object,
    positions: object,
    asked: int | None,
    expected: int,
) -> None:
    edit(folder / "sentence_bert_config.json", max_seq_length=sentence)
    edit(folder / "tokenizer_config.json", model_max_length=tokenizer)
    edit(folder / "config.json", max_position_embeddings=positions)
    assert found(folder, max_tokens=asked).max_tokens == expected


def test_more_than_the_positions_cannot_be_asked_for(folder: Path) -> None:
    assert found(folder, max_tokens=48).max_tokens == 48
    for asked in (49, 10**6, 10**30):
        with pytest.raises(SettingError, match="this model has 48 positions") as caught:
            found(folder, max_tokens=asked)
        assert caught.value.name == "max_tokens"


def test_a_limit_beyond_all_reason_is_refused_where_no_file_says_one(folder: Path) -> None:
    edit(folder / "config.json", max_position_embeddings=MISSING)
    with pytest.raises(SettingError, match="max_tokens"):
        found(folder, max_tokens=10**30)


def test_without_any_limit_it_is_512_and_the_log_says_so(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "sentence_bert_config.json").unlink()
    edit(folder / "config.json", max_position_embeddings=MISSING)
    with caplog.at_level(logging.WARNING):
        assert found(folder).max_tokens == 512
    assert "512" in caplog.text
    assert "max_tokens" in caplog.text


def test_what_tokenizer_json_has_baked_in_is_no_limit(folder: Path) -> None:
    (folder / "sentence_bert_config.json").unlink()
    assert (
        json.loads((folder / "tokenizer.json").read_text("utf-8"))["truncation"]["max_length"] == 8
    )
    assert found(folder).max_tokens == 48


@pytest.mark.parametrize("family", ["roberta", "distilbert", "xlm-roberta", "xlnet"])
def test_the_sentence_config_may_be_named_after_another_family(folder: Path, family: str) -> None:
    (folder / "sentence_bert_config.json").rename(folder / f"sentence_{family}_config.json")
    assert found(folder).max_tokens == 32


# Modules.


def modules(*kinds: str, **paths: Any) -> list[dict[str, Any]]:
    usual = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    return [
        {
            "idx": number,
            "name": str(number),
            "path": paths.get(kind, usual.get(kind, "")),
            "type": f"sentence_transformers.models.{kind}",
        }
        for number, kind in enumerate(kinds)
    ]


def write_modules(folder: Path, values: object) -> None:
    (folder / "modules.json").write_text(json.dumps(values), encoding="utf-8")


def test_a_normalize_module_needs_no_folder(folder: Path, tmp_path: Path) -> None:
    assert not (folder / "2_Normalize").exists()
    assert found(folder).normalize
    plain = write_tiny_model(tmp_path / "plain", normalize=False)
    assert not found(plain).normalize


def test_newer_names_of_modules_are_known(folder: Path) -> None:
    values = modules("Transformer", "Pooling", "Normalize")
    for value in values:
        value["type"] = f"sentence_transformers.base.modules.{value['type'].rpartition('.')[2]}"
    write_modules(folder, values)
    assert found(folder).normalize


def test_the_transformer_may_have_a_folder_of_its_own(folder: Path) -> None:
    inner = folder / "0_Transformer"
    inner.mkdir()
    for name in ("config.json", "model.safetensors", "sentence_bert_config.json"):
        (folder / name).rename(inner / name)
    write_modules(folder, modules("Transformer", "Pooling", Transformer="0_Transformer"))
    files = found(folder)
    assert files.weights == (inner / "model.safetensors",)
    assert files.max_tokens == 32
    assert files.config["hidden_size"] == 32
    assert files.tokenizer.path == folder / "tokenizer.json"
    (folder / "tokenizer.json").rename(inner / "tokenizer.json")
    assert found(folder).tokenizer.path == inner / "tokenizer.json"


@pytest.mark.parametrize(
    ("kinds", "reason"),
    [
        (["Transformer", "Pooling", "Dense"], "Dense is not supported"),
        (["Transformer", "Pooling", "Dense", "Normalize"], "Dense is not supported"),
        (["Transformer", "Pooling", "Normalize", "Dense"], "Dense"),
        (["Transformer", "CNN", "Pooling"], "CNN is not supported"),
        (["WordEmbeddings", "Pooling"], "WordEmbeddings is not supported"),
        (["Transformer", "WeightedLayerPooling", "Pooling"], "WeightedLayerPooling"),
        (["Transformer", "Pooling", "Pooling"], "Pooling is not supported"),
        (["Transformer", "Transformer", "Pooling"], "Transformer is not supported"),
        (["Normalize", "Transformer", "Pooling"], "behind Normalize"),
        (["Transformer", "Normalize", "Pooling"], "behind Normalize"),
        (["Transformer"], "names no Pooling"),
        (["Pooling"], "names no Transformer"),
        ([], "names no Transformer"),
    ],
)
def test_modules_that_are_not_supported_are_refused_by_name(
    folder: Path, kinds: list[str], reason: str
) -> None:
    write_modules(folder, modules(*kinds))
    error = refusal(folder)
    assert reason in error.reason
    assert error.path == str(folder / "modules.json")


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../other",
        "1_Pooling/../..",
        "/etc",
        "//server/share",
        "\\server",
        "..\\other",
        "1_Pooling\\..\\..",
        "C:/models",
        "C:\\models",
        "c:models",
        None,
        5,
        [],
        {},
        True,
    ],
)
def test_a_path_that_leaves_the_folder_is_refused(folder: Path, path: object) -> None:
    for kind in ("Transformer", "Pooling", "Normalize"):
        write_modules(folder, modules("Transformer", "Pooling", "Normalize", **{kind: path}))
        assert refusal(folder).path == str(folder / "modules.json")


@pytest.mark.parametrize("path", ["", ".", "./", "1_Pooling/", "./1_Pooling", "a//b", "a\\b"])
def test_a_path_inside_the_folder_may_be_written_in_many_ways(folder: Path, path: str) -> None:
    place = folder.joinpath(*path.replace("\\", "/").split("/"))
    place.mkdir(parents=True, exist_ok=True)
    if place != folder and not (place / "config.json").exists():
        shutil.copy(folder / "1_Pooling" / "config.json", place)
    elif place == folder:
        pooling = json.loads((folder / "1_Pooling" / "config.json").read_text("utf-8"))
        edit(folder / "config.json", **pooling)
    write_modules(folder, modules("Transformer", "Pooling", Pooling=path))
    assert found(folder).pooling is Pooling.MEAN


@pytest.mark.parametrize("path", ["x" * 300, "\u6a21" * 200, "x/" * 3000, "\0", "\ud800"])
@pytest.mark.parametrize("kind", ["Transformer", "Pooling"])
def test_a_path_that_no_disk_can_have_is_refused(folder: Path, kind: str, path: str) -> None:
    write_modules(folder, modules("Transformer", "Pooling", **{kind: path}))
    refusal(folder)


def test_a_path_through_a_file_is_refused(folder: Path) -> None:
    for kind in ("Transformer", "Pooling"):
        write_modules(folder, modules("Transformer", "Pooling", **{kind: "config.json"}))
        refusal(folder)


def test_without_modules_it_is_a_mean_and_the_log_says_so(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    edit(folder / "1_Pooling" / "config.json", pooling_mode="cls")
    (folder / "modules.json").unlink()
    with caplog.at_level(logging.WARNING):
        files = found(folder)
    assert (files.pooling, files.normalize) == (Pooling.MEAN, False)
    assert "modules.json" in caplog.text
    assert "mean" in caplog.text


# Pooling.

SWITCHES = {
    "cls_token": Pooling.CLS,
    "mean_tokens": Pooling.MEAN,
    "max_tokens": Pooling.MAX,
    "mean_sqrt_len_tokens": Pooling.MEAN_SQRT_LEN,
    "weightedmean_tokens": Pooling.WEIGHTED_MEAN,
    "lasttoken": Pooling.LAST,
}


def write_pooling(folder: Path, **values: Any) -> Path:
    file = folder / "1_Pooling" / "config.json"
    file.write_text(json.dumps({"word_embedding_dimension": 32} | values), encoding="utf-8")
    return file


@pytest.mark.parametrize(("switch", "pooling"), SWITCHES.items())
def test_a_switch_says_how_to_pool(folder: Path, switch: str, pooling: Pooling) -> None:
    switches = {f"pooling_mode_{name}": name == switch for name in SWITCHES}
    write_pooling(folder, **switches)
    assert found(folder).pooling is pooling
    write_pooling(folder, **{f"pooling_mode_{switch}": True})
    assert found(folder).pooling is pooling


@pytest.mark.parametrize(
    ("name", "pooling"),
    [
        ("cls", Pooling.CLS),
        ("mean", Pooling.MEAN),
        ("max", Pooling.MAX),
        ("mean_sqrt_len_tokens", Pooling.MEAN_SQRT_LEN),
        ("weightedmean", Pooling.WEIGHTED_MEAN),
        ("lasttoken", Pooling.LAST),
    ],
)
def test_newer_files_name_the_mode(folder: Path, name: str, pooling: Pooling) -> None:
    write_pooling(folder, pooling_mode=name)
    assert found(folder).pooling is pooling
    write_pooling(folder, pooling_mode=name, include_prompt=True)
    assert found(folder).pooling is pooling


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "found none"),
        ({"pooling_mode_mean_tokens": False}, "found none"),
        ({"pooling_mode_mean_tokens": None}, "found none"),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}, "found cls, mean"),
        (
            dict.fromkeys((f"pooling_mode_{name}" for name in SWITCHES), True),
            "found cls, mean, max",
        ),
        ({"pooling_mode": "attention"}, "'attention' is not known"),
        ({"pooling_mode": ""}, "'' is not known"),
        ({"pooling_mode": None}, "found none"),
        ({"pooling_mode": ["cls", "mean"]}, "found none"),
        ({"pooling_mode": 1}, "found none"),
    ],
)
def test_no_mode_or_two_at_once_are_refused(
    folder: Path, values: dict[str, Any], reason: str
) -> None:
    file = write_pooling(folder, **values)
    error = refusal(folder)
    assert reason in error.reason
    assert error.path == str(file)


def test_a_missing_pooling_config_is_named(folder: Path) -> None:
    (folder / "1_Pooling" / "config.json").unlink()
    assert refusal(folder).path == str(folder / "1_Pooling" / "config.json")


# Prompts.


def prompts_of(folder: Path, prompts: object, default: object = MISSING) -> tuple[str, str]:
    edit(folder / "config_sentence_transformers.json", prompts=prompts, default_prompt_name=default)
    files = found(folder)
    return files.query_prompt, files.document_prompt


def test_prompts_are_taken_by_role(folder: Path) -> None:
    assert prompts_of(folder, MISSING) == ("", "")
    assert prompts_of(folder, {}) == ("", "")
    assert prompts_of(folder, None) == ("", "")
    assert prompts_of(folder, {"query": "q: "}) == ("q: ", "")
    assert prompts_of(folder, {"document": "d: "}) == ("", "d: ")
    assert prompts_of(folder, {"passage": "p: "}) == ("", "p: ")
    assert prompts_of(folder, {"corpus": "c: "}) == ("", "c: ")
    everything = {"corpus": "c: ", "passage": "p: ", "document": "d: ", "query": "q: ", "x": "x: "}
    assert prompts_of(folder, everything) == ("q: ", "d: ")
    del everything["document"]
    assert prompts_of(folder, everything) == ("q: ", "p: ")
    assert prompts_of(folder, {"clustering": "x: "}) == ("", "")
    assert prompts_of(folder, {"query": "", "document": ""}) == ("", "")


def test_the_default_prompt_is_for_the_role_that_has_none(folder: Path) -> None:
    assert prompts_of(folder, {"x": "x: "}, "x") == ("x: ", "x: ")
    assert prompts_of(folder, {"x": "x: ", "query": "q: "}, "x") == ("q: ", "x: ")
    assert prompts_of(folder, {"x": "x: ", "document": ""}, "x") == ("x: ", "")
    assert prompts_of(folder, {"query": "q: "}, "query") == ("q: ", "q: ")
    assert prompts_of(folder, {"query": "q: "}, None) == ("q: ", "")


@pytest.mark.parametrize(
    ("prompts", "default"),
    [
        ({"query": 5}, MISSING),
        ({"query": None}, MISSING),
        ({"x": ["a"]}, MISSING),
        ("query: ", MISSING),
        (["query: "], MISSING),
        (7, MISSING),
        ({}, "query"),
        (MISSING, "query"),
        ({"query": "q"}, "document"),
        ({"query": "q"}, 5),
        ({"query": "q"}, []),
        ({"query": "q"}, {}),
    ],
)
def test_odd_prompts_are_refused(folder: Path, prompts: object, default: object) -> None:
    file = folder / "config_sentence_transformers.json"
    edit(file, prompts=prompts, default_prompt_name=default)
    assert refusal(folder).path == str(file)


# How vectors are compared.


@pytest.mark.parametrize(
    ("name", "similarity"),
    [
        (MISSING, Similarity.COSINE),
        (None, Similarity.COSINE),
        ("cosine", Similarity.COSINE),
        ("dot", Similarity.DOT),
        ("euclidean", Similarity.EUCLIDEAN),
        ("manhattan", Similarity.MANHATTAN),
    ],
)
def test_the_similarity_is_what_the_file_says(
    folder: Path, name: object, similarity: Similarity
) -> None:
    edit(folder / "config_sentence_transformers.json", similarity_fn_name=name)
    assert found(folder).similarity is similarity


@pytest.mark.parametrize("name", ["Cosine", "", 5, ["dot"], {}])
def test_a_similarity_that_nobody_knows_is_said_and_cosine_taken(
    folder: Path, name: object, caplog: pytest.LogCaptureFixture
) -> None:
    edit(folder / "config_sentence_transformers.json", similarity_fn_name=name)
    assert found(folder).similarity is Similarity.COSINE
    assert "similarity_fn_name" in caplog.text


def write_prompt_outside(folder: Path, prompts: dict[str, str] | None) -> None:
    edit(folder / "1_Pooling" / "config.json", include_prompt=False)
    if prompts is not None:
        edit(folder / "config_sentence_transformers.json", prompts=prompts)


def test_prompts_that_are_not_pooled_are_refused(folder: Path) -> None:
    write_prompt_outside(folder, {"query": "q: "})
    assert "include_prompt" in refusal(folder).reason


def test_without_prompts_it_does_not_matter_whether_they_are_pooled(folder: Path) -> None:
    write_prompt_outside(folder, {"query": "", "document": ""})
    assert found(folder).query_prompt == ""


@pytest.mark.parametrize("role", ["query_prompt", "document_prompt"])
def test_a_prompt_asked_for_is_refused_too_where_it_would_be_pooled(
    folder: Path, role: str
) -> None:
    write_prompt_outside(folder, None)
    found(folder)
    with pytest.raises(OnnxEmbeddingsError, match="include_prompt"):
        onnx_embeddings.load(folder, **{role: "q: "})  # type: ignore[arg-type]


def test_prompts_that_are_asked_away_may_be_of_any_kind(folder: Path) -> None:
    write_prompt_outside(folder, {"query": "q: "})
    with onnx_embeddings.load(folder, query_prompt="", document_prompt="") as engine:
        assert engine.spec.query_prompt == ""


def test_the_request_comes_before_the_file(tmp_path: Path) -> None:
    prompts = {"query": "q: ", "document": "d: "}
    folder = write_tiny_model(tmp_path / "model", prompts=prompts)
    with onnx_embeddings.load(folder) as engine:
        assert (engine.spec.query_prompt, engine.spec.document_prompt) == ("q: ", "d: ")
    with onnx_embeddings.load(folder, query_prompt="", document_prompt="x ") as engine:
        assert (engine.spec.query_prompt, engine.spec.document_prompt) == ("", "x ")


# The tokenizer's files.


def test_tokenizer_json_comes_before_vocab_txt(folder: Path) -> None:
    (folder / "vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\n", encoding="utf-8")
    assert found(folder).tokenizer.path.name == "tokenizer.json"
    (folder / "tokenizer.json").unlink()
    assert found(folder).tokenizer.path.name == "vocab.txt"
    (folder / "vocab.txt").unlink()
    assert "neither tokenizer.json nor vocab.txt" in refusal(folder).reason


@pytest.mark.parametrize(
    ("name", "key", "value", "attribute", "expected"),
    [
        ("tokenizer_config", "truncation_side", "left", "truncation_side", "left"),
        ("tokenizer_config", "truncation_side", "right", "truncation_side", "right"),
        ("tokenizer_config", "truncation_side", None, "truncation_side", "right"),
        ("tokenizer_config", "truncation_side", 5, "truncation_side", "right"),
        ("sentence_bert_config", "do_lower_case", True, "lowercase", True),
        ("sentence_bert_config", "do_lower_case", False, "lowercase", False),
        ("sentence_bert_config", "do_lower_case", "yes", "lowercase", False),
        ("config", "pad_token_id", 7, "pad_id", 7),
        ("config", "pad_token_id", None, "pad_id", 0),
        ("config", "pad_token_id", -1, "pad_id", 0),
        ("config", "pad_token_id", "7", "pad_id", 0),
        ("config", "pad_token_id", True, "pad_id", 0),
    ],
)
def test_what_other_files_say_of_the_tokenizer_is_taken(  # noqa: PLR0913, PLR0917
    folder: Path, name: str, key: str, value: object, attribute: str, expected: object
) -> None:
    edit(folder / f"{name}.json", **{key: value})
    assert getattr(found(folder).tokenizer, attribute) == expected


def test_the_options_of_a_vocabulary_are_taken(folder: Path) -> None:
    edit(
        folder / "tokenizer_config.json",
        do_lower_case=False,
        strip_accents=True,
        tokenize_chinese_chars=False,
    )
    assert found(folder).tokenizer.bert_options == BertOptions(
        lowercase=False, strip_accents=True, chinese_characters=False
    )
    (folder / "tokenizer_config.json").unlink()
    assert found(folder).tokenizer.bert_options == BertOptions()


def digest_of(folder: Path, store: Store) -> str:
    return tokenizer_digest(found(folder).tokenizer, store)


def test_a_tokenizers_digest_is_of_its_rules(folder: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    seen = {digest_of(folder, store)}
    file = folder / "tokenizer.json"

    def changed(file: Path, **changes: Any) -> bool:
        before = file.read_bytes() if file.exists() else None
        edit(file, **changes)
        digest = digest_of(folder, store)
        is_new = digest not in seen
        seen.add(digest)
        if before is None:
            file.unlink()
        else:
            file.write_bytes(before)
        return is_new

    # What is baked in is not used, so it makes no other tokenizer.
    assert not changed(file, truncation=None)
    assert not changed(file, padding=None)
    assert not changed(file, version="2.0")
    assert not changed(folder / "tokenizer_config.json", model_max_length=77)
    assert changed(file, normalizer=None)
    assert changed(file, post_processor=None)
    assert changed(file, added_tokens=[])
    assert changed(folder / "tokenizer_config.json", truncation_side="left")
    assert changed(folder / "sentence_bert_config.json", do_lower_case=True)


def test_the_digests_of_tokenizers_are_what_they_were(folder: Path) -> None:
    """People keep digests that are made of these; tests/test_spec.py pins those."""
    file = folder / "tokenizer.json"
    file.write_text(
        '{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],'
        ' "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null,'
        ' "decoder": null, "model": {"type": "WordLevel", "vocab": {"a": 0, "\\u00e9": 1},'
        ' "unk_token": "a"}}',
        encoding="utf-8",
    )
    with onnx_embeddings.load(folder) as engine:
        assert (
            engine.spec.tokenizer
            == "c6925bd952b3b1043bb11d54ab2755fd25c6e0f64ccfc96a8051c1cf54641d39"
        )
    file.unlink()
    (folder / "vocab.txt").write_bytes(b"[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n")
    with onnx_embeddings.load(folder) as engine:
        assert (
            engine.spec.tokenizer
            == "a56e0980b300b94177efb836ba3d7757764ff5abf26af5094e7a01997c091c5b"
        )


def test_the_digest_of_a_vocabulary_is_of_words_and_options(folder: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    (folder / "tokenizer.json").unlink()
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("[UNK]\n[CLS]\n[SEP]\na\n", encoding="utf-8")
    digests = [digest_of(folder, store)]
    vocabulary.write_text("[UNK]\n[CLS]\n[SEP]\na\nb\n", encoding="utf-8")
    digests.append(digest_of(folder, store))
    for name in ("do_lower_case", "strip_accents", "tokenize_chinese_chars"):
        edit(folder / "tokenizer_config.json", **{name: False})
        digests.append(digest_of(folder, store))
    assert len(set(digests)) == len(digests)


# Weights.


def test_shards_are_found_through_their_index(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "model", shards=3)
    names = [f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)]
    assert [file.name for file in found(folder).weights] == names
    (folder / names[1]).unlink()
    error = refusal(folder)
    assert error.path == str(folder / names[1])
    assert "is missing" in error.reason


@pytest.mark.parametrize(
    "shards",
    [
        MISSING,
        None,
        {},
        [],
        "x",
        {"a": "../model.safetensors"},
        {"a": "/etc/passwd"},
        {"a": "C:\\model.safetensors"},
        {"a": None},
        {"a": 5},
        {"a": []},
        {"a": {}},
        {"a": "model.safetensors", "b": None},
        {"a": "model.safetensors", "b": 5},
        {"a": "not-there.safetensors"},
        {"a": "1_Pooling"},
        {"a": ""},
        {"a": "x" * 300},
        {"a": "\0"},
    ],
)
def test_an_odd_index_is_refused(folder: Path, shards: object) -> None:
    edit(folder / "model.safetensors.index.json", weight_map=shards)
    refusal(folder)


def test_a_folder_without_weights_says_what_it_lacks(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    error = refusal(folder)
    assert error.reason == "has neither model.safetensors nor an ONNX file"
    assert error.path == str(folder)


@pytest.mark.parametrize("family", ["t5", None, 5, [], {}, "BERT", ""])
def test_weights_of_another_family_are_refused_by_name(folder: Path, family: object) -> None:
    edit(folder / "config.json", model_type=family)
    error = refusal(folder)
    assert f"model_type {family!r}" in error.reason
    assert "ONNX" in str(error.hint)


def test_another_familys_ready_file_is_run(folder: Path) -> None:
    edit(folder / "config.json", model_type="t5")
    (folder / "model.onnx").write_bytes(b"")
    assert found(folder).ready == folder / "model.onnx"
    assert found(folder).weights == ()


def test_a_known_family_is_compiled_though_a_ready_file_lies_beside(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"")
    assert found(folder).ready is None
    assert found(folder).weights == (folder / "model.safetensors",)
    assert found(folder, variant="model.onnx").ready == folder / "model.onnx"


def test_the_usual_place_of_a_ready_file_comes_first(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "onnx").mkdir()
    for name in ("onnx/model_O4.onnx", "model.onnx", "onnx/model.onnx"):
        (folder / name).write_bytes(b"")
        assert found(folder).ready == folder / name


def test_several_ready_files_are_listed_and_one_may_be_chosen(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "onnx").mkdir()
    for name in ("onnx/model_O4.onnx", "onnx/model_int8.onnx", "other.onnx"):
        (folder / name).write_bytes(b"")
    error = refusal(folder)
    assert "onnx/model_O4.onnx, onnx/model_int8.onnx, other.onnx" in error.reason
    assert "variant" in str(error.hint)
    chosen = found(folder, variant="onnx/model_int8.onnx")
    assert chosen.ready == folder / "onnx" / "model_int8.onnx"


def test_a_variant_that_is_not_there_is_named(folder: Path) -> None:
    for variant in ("onnx/model.onnx", f"{'x' * 300}.onnx", "\0.onnx", "1_Pooling/x.onnx"):
        with pytest.raises(OnnxEmbeddingsError):
            found(folder, variant=variant)
    assert "onnx/model.onnx" in refusal(folder, variant="onnx/model.onnx").path


def test_data_beside_a_ready_file_belongs_to_it(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    place = folder / "onnx"
    place.mkdir()
    mine = ["model.data", "model.onnx.data", "model.onnx_data", "model.onnx_data_1"]
    for name in ("model.onnx", *mine, "other.onnx_data", "model_O4.onnx.data", "notes.txt"):
        (place / name).write_bytes(b"")
    assert [file.name for file in found(folder).ready_data] == sorted(mine)


# Names.


@pytest.mark.parametrize(
    "name",
    ["J\u00fcrgen \u6a21\u578b \U0001f642 x", "a b", "x" * 240, "\u6a21" * 80, "-", "a'b\"c$d;e"],
    ids=itertools.count(),
)
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    folder = write_tiny_model(tmp_path / name)
    with onnx_embeddings.load(folder) as engine:
        assert engine.embed_documents(TEXTS).shape == (2, 32)


def test_the_folder_may_be_given_from_inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with onnx_embeddings.load(folder) as engine:
        expected = engine.embed_documents(TEXTS)
    monkeypatch.chdir(folder)
    for name in (".", "./", "../model", "./1_Pooling/.."):
        with onnx_embeddings.load(name) as engine:
            np.testing.assert_array_equal(engine.embed_documents(TEXTS), expected)


# Hostile files.


def json_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.json"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with every JSON file there is."""
    folder = tmp_path_factory.mktemp("whole") / "model"
    return write_tiny_model(folder, prompts={"query": "q: ", "document": "d: "}, shards=2)


FILES = [
    "config.json",
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "tokenizer_config.json",
    "tokenizer.json",
    "config_sentence_transformers.json",
    "model.safetensors.index.json",
]


def test_the_list_of_json_files_is_complete(whole: Path) -> None:
    assert sorted(FILES) == [str(file.relative_to(whole).as_posix()) for file in json_files(whole)]


@pytest.fixture(params=FILES)
def file(request: pytest.FixtureRequest, whole: Path, tmp_path: Path) -> Path:
    """One of the JSON files of a copy."""
    shutil.copytree(whole, tmp_path / "model")
    return tmp_path / "model" / str(request.param)


def root(file: Path) -> Path:
    return file.parent.parent if file.parent.name == "1_Pooling" else file.parent


BROKEN = [
    b"",
    b"{",
    b'{"a": ',
    b"not JSON",
    b"\xff\xfe\xfa",
    b'"text"',
    b"5",
    b"null",
    b"[1]",
    b'{"a": "\xff"}',
    b'{"a": ' + b"9" * 5000 + b"}",
    b"[" * 100_000,
    b'{"a":' * 100_000,
]


def test_a_broken_json_file_is_named(file: Path) -> None:
    for content in BROKEN:
        file.write_bytes(content)
        with pytest.raises(ModelFormatError) as caught:
            onnx_embeddings.load(root(file))
        assert caught.value.path == str(file)


def test_json_that_is_nested_deeply_is_read_or_refused(file: Path) -> None:
    text = file.read_text("utf-8").strip()
    end = "}]" if file.name == "modules.json" else "}"
    start = text.removesuffix("]").strip().removesuffix("}")
    for depth in (10, 200, 900, 960, 980, 990, 1000, 5000):
        nested = f'{start}, "x": {"[" * depth}{"]" * depth}{end}'
        file.write_text(nested, encoding="utf-8")
        assert outcome(root(file)) is None


def test_a_huge_json_file_is_refused_before_it_is_read(file: Path) -> None:
    most = 256 if file.name == "tokenizer.json" else 4
    with file.open("r+b") as stream:
        stream.truncate(most * 2**20 + 1)
    with pytest.raises(ModelFormatError, match=f"is larger than {most} MiB") as caught:
        onnx_embeddings.load(root(file))
    assert caught.value.path == str(file)


def test_a_folder_in_the_place_of_a_file_is_refused(file: Path) -> None:
    file.unlink()
    file.mkdir()
    with pytest.raises(OnnxEmbeddingsError):
        onnx_embeddings.load(root(file))


def outcome(folder: Path, **request: Any) -> str | None:
    """What went wrong when this model was used, unless it worked or one of our errors came."""
    config = EngineConfig(home=folder.parent / "home")
    try:
        with onnx_embeddings.load(folder, config=config, **request) as engine:
            engine.embed_documents(TEXTS)
            engine.embed_queries(TEXTS)
    except OnnxEmbeddingsError:
        return None
    except Exception as error:  # noqa: BLE001  this is what is looked for
        return f"{type(error).__name__}: {error}"
    return None


def places_in(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value of a JSON document, up to a depth; inside, of the first ones only."""
    yield place
    if not isinstance(value, dict | list) or len(place) == 5:
        return
    keys = value if isinstance(value, dict) else range(len(value))
    for key in itertools.islice(keys, (5 if isinstance(value, dict) else 2) if place else None):
        yield from places_in(value[key], (*place, key))


def with_value(document: Any, place: tuple[Any, ...], value: object) -> Any:
    if not place:
        return value
    copy = document.copy()
    copy[place[0]] = with_value(document[place[0]], place[1:], value)
    return copy


@pytest.mark.parametrize("value", [None, [], {}, "x", -1, 1e30], ids=json.dumps)
def test_any_value_of_any_file_may_be_odd(file: Path, value: object) -> None:
    document = json.loads(file.read_text("utf-8"))
    wrong = {}
    # Held open, its session serves all that follow, which is much faster.
    with onnx_embeddings.load(root(file)):
        for place in places_in(document):
            file.write_text(json.dumps(with_value(document, place, value)), encoding="utf-8")
            message = outcome(root(file))
            if message is not None:
                wrong[place] = message
    assert wrong == {}


def test_files_may_be_missing_singly_and_in_pairs(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(whole, folder)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    content = {file: file.read_bytes() for file in files}
    wrong = {}
    for pair in [*itertools.combinations(files, 1), *itertools.combinations(files, 2)]:
        for file in pair:
            file.unlink()
        message = outcome(folder)
        if message is not None:
            wrong[tuple(file.name for file in pair)] = message
        for file in pair:
            file.write_bytes(content[file])
    assert len(files) == 10
    assert wrong == {}


@pytest.mark.parametrize(
    "names", [["tokenizer_config.json"], ["config_sentence_transformers.json"],
              ["tokenizer_config.json", "config_sentence_transformers.json"]]
)  # fmt: skip
def test_side_files_are_not_needed(whole: Path, tmp_path: Path, names: list[str]) -> None:
    shutil.copytree(whole, tmp_path / "model")
    for name in names:
        (tmp_path / "model" / name).unlink()
    with (
        onnx_embeddings.load(whole, query_prompt="", document_prompt="") as one,
        onnx_embeddings.load(tmp_path / "model", query_prompt="", document_prompt="") as other,
    ):
        np.testing.assert_array_equal(other.embed_documents(TEXTS), one.embed_documents(TEXTS))
        assert other.spec.fingerprint == one.spec.fingerprint
