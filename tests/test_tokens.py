from __future__ import annotations

import json
import os
import random
import string
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from onnx_embeddings.errors import ModelFormatError, SettingError
from onnx_embeddings.folder.tokenizer import BertOptions, TokenizerFiles
from onnx_embeddings.tokens import Encoder

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from onnx_embeddings import Engine

PAD, UNK, CLS, SEP = 0, 1, 2, 3
ALPHABET = (
    string.ascii_letters
    + string.digits
    + string.punctuation
    + " " * 25
    + "\t\n\x00\u00e4\u00f6\u00df\u00e9\u0301\u00c5"
    + "\u4e2d\u6587\ud55c\U0001f642\u200b\ufeff\u00a0\u3000"
)


def random_texts(number: int, *, longest: int, seed: int = 0) -> list[str]:
    choice = random.Random(seed)  # noqa: S311  no secrets here
    sizes = [choice.randrange(longest) for _ in range(number)]
    special = ["[SEP]", "[CLS] a [PAD]", "[MASK]b", "the cat sits", ""]
    return special + ["".join(choice.choices(ALPHABET, k=size)) for size in sizes]


def untruncated(file: Path) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def write_vocabulary(folder: Path, file: Path) -> Path:
    """The vocab.txt that a tokenizer.json stands for."""
    ids = json.loads((folder / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    words = [f"[unused{number}]" for number in range(max(ids.values()) + 1)]
    for word, number in ids.items():
        words[number] = word
    file.write_text("\n".join(words) + "\n", encoding="utf-8")
    return file


def write_byte_tokenizer(folder: Path) -> Path:
    """A token for every byte, nothing normalised and no special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    ids = {character: number for number, character in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


@pytest.fixture
def file(tiny_folder: Path) -> Path:
    return tiny_folder / "tokenizer.json"


def ids_of(encoder: Encoder, *texts: str) -> list[list[int]]:
    return [ids.tolist() for ids in encoder.encode(texts).ids]


def test_the_tests_tokenizer_has_a_cut_and_a_padding_baked_in(file: Path) -> None:
    baked = Tokenizer.from_file(str(file))
    assert len(baked.encode("a")) == 8
    assert len(baked.encode("a " * 20)) == 8


def test_a_cut_and_a_padding_baked_into_the_file_are_not_used(file: Path) -> None:
    encoder = Encoder(TokenizerFiles(path=file), max_tokens=32)
    for texts in (["a"], ["a", "a " * 20], ["a " * 20], ["", "a " * 29, "a"]):
        tokens = encoder.encode(texts)
        assert tokens.lengths.tolist() == [2 + len(text.split()) for text in texts]
        for ids in tokens.ids:
            assert ids[0] == CLS
            assert ids[-1] == SEP
            assert PAD not in ids


def test_tokens_are_int64_and_agree_with_their_lengths(file: Path) -> None:
    encoder = Encoder(TokenizerFiles(path=file), max_tokens=8)
    for texts in ([], [""], ["a"], ["a", "a " * 20, ""]):
        tokens = encoder.encode(texts)
        assert [len(ids) for ids in tokens.ids] == tokens.lengths.tolist()
        assert len(tokens.ids) == len(tokens.lengths) == len(tokens.counts) == len(texts)
        assert {ids.dtype for ids in tokens.ids} <= {np.dtype(np.int64)}
        assert tokens.lengths.dtype == tokens.counts.dtype == np.int64
        np.testing.assert_array_equal(encoder.count(texts), tokens.counts)
        assert encoder.count(texts).dtype == np.int64


@pytest.mark.parametrize("limit", [3, 4, 7, 31, 32])
def test_a_text_is_cut_at_the_limit_and_keeps_its_special_tokens(file: Path, limit: int) -> None:
    encoder = Encoder(TokenizerFiles(path=file), max_tokens=limit)
    room = limit - 2
    words = ["cat", "dog", "bird", "sits", "runs", "flies", "red", "green", "blue", "sun"] * 10
    whole = untruncated(file)
    for size in (room - 1, room, room + 1, room + 2, 3 * room + 1):
        text = " ".join(words[:size])
        (ids,) = ids_of(encoder, text)
        expected = whole.encode(text).ids
        assert ids == expected[: limit - 1] + ([SEP] if len(expected) >= limit else [])
        assert encoder.encode([text]).counts.tolist() == [size + 2]
        assert ids_of(encoder, "a", text)[1] == ids


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("limit", [3, 5, 8, 32])
def test_ids_and_counts_are_those_of_an_untruncated_tokenizer(
    file: Path, side: Any, limit: int
) -> None:
    texts = random_texts(300, longest=120, seed=limit)
    whole = untruncated(file).encode_batch(texts)
    encoder = Encoder(TokenizerFiles(path=file, truncation_side=side), max_tokens=limit)
    tokens = encoder.encode(texts)
    assert tokens.counts.tolist() == [len(encoding) for encoding in whole]
    for text, ids, encoding in zip(texts, tokens.ids, whole, strict=True):
        inner = encoding.ids[1:-1]
        inner = inner[: limit - 2] if side == "right" else inner[-(limit - 2) :]
        assert ids.tolist() == [CLS, *inner, SEP]
        alone = encoder.encode([text])
        assert alone.ids[0].tolist() == ids.tolist()
        assert alone.counts.tolist() == [len(encoding)]


LONG = 2**15  # longer texts are counted in pieces
SEAMS = [
    "the cat sits",
    "b [MASK] c",
    "[SEP] [CLS]",
    " \u0301x y",
    "e\u0301 e\u0301",
    "a\u0300 \u0301b",
    "\u00a0 \u00a0a",
    "don't stop",
    "ab\x00 cd",
    "\n\n\t \r\nx",
    "\u4e2d \u6587",
    "\u3000 \u2028 x",
    "   ",
    "before  behind",
    "x gap s",
]


def write_with_added_tokens(file: Path, target: Path) -> Path:
    """Tokens that reach over the spaces beside them, or hold one."""
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.add_tokens(
        [
            AddedToken("before", lstrip=True),
            AddedToken("behind", rstrip=True),
            AddedToken("stop", single_word=True),
            AddedToken("gap\u00a0s"),
        ]
    )
    tokenizer.save(str(target))
    return target


@pytest.mark.parametrize("has_added_tokens", [False, True])
def test_the_place_where_a_long_text_is_divided_does_not_show(
    file: Path, tmp_path: Path, *, has_added_tokens: bool
) -> None:
    path = write_with_added_tokens(file, tmp_path / "tokenizer.json") if has_added_tokens else file
    whole = untruncated(path)
    encoder = Encoder(TokenizerFiles(path=path), max_tokens=16)
    for seam in SEAMS:
        for shift in (1, 4):
            text = f"{'a' * (LONG - shift)}{seam}{' cat' * 20} {seam}"
            expected = whole.encode(text).ids
            tokens = encoder.encode([text])
            cut = [*expected[:15], SEP] if len(expected) > 16 else expected
            assert tokens.ids[0].tolist() == cut
            assert encoder.count([text]).tolist() == [len(expected)]
            assert (tokens.counts[0] > 16) == (len(expected) > 16)


MIXED = ["a", "cat ", "  ", "\u4e2d", "\u6587", "zqx", " zqx\u4e2d", " \u0301", "\u4e2d\u0301"]
MIXED += ["\u3000", "\n", ".", "[MASK] ", "[SEP]", "\uf900", "\u3400", "\ufb03", "x" * 7]


@pytest.mark.parametrize(
    "added",
    [[], [AddedToken("zqx", single_word=True, special=True)], [AddedToken("zq\u4e2d")]],
    ids=["none", "whole word", "ideograph"],
)
def test_long_texts_of_all_sorts_are_cut_and_counted_as_if_read_whole(
    file: Path, tmp_path: Path, added: list[AddedToken]
) -> None:
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.add_tokens(added)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    whole = untruncated(path)
    choice = random.Random(0)  # noqa: S311  no secrets here
    for limit in (3, 64):
        encoder = Encoder(TokenizerFiles(path=path), max_tokens=limit)
        texts = ["".join(choice.choices(MIXED, k=choice.randrange(1500))) for _ in range(6)]
        texts.append(" zqx\u4e2d" * 8000)
        encodings = whole.encode_batch(texts)
        tokens = encoder.encode(texts)
        for ids, encoding in zip(tokens.ids, encodings, strict=True):
            inner = encoding.ids[1:-1][: limit - 2]
            assert ids.tolist() == [CLS, *inner, SEP]
        counts = [len(encoding) for encoding in encodings]
        assert encoder.count(texts).tolist() == counts
        assert (tokens.counts > limit).tolist() == [count > limit for count in counts]


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_very_long_text_is_cut_and_counted_as_any_other(file: Path, side: Any) -> None:
    encoder = Encoder(TokenizerFiles(path=file, truncation_side=side), max_tokens=8)
    for text in (
        "cat " * 10_000 + "moon sea sun dog bird red",
        "cat " * 6 + " " * 60_000 + "dog",
        "cat " * 5 + " " * 60_000 + "dog",
        " " * 200_000 + "cat " * 20,
        "x" * 200_000,
        "cat" + " " * 200_000 + "dog",
        "\u4e2d" * 5_000,
        "\n" * 100_000,
        ("cat " * 5_000 + "\n") * 2,
    ):
        expected = untruncated(file).encode(text).ids
        tokens = encoder.encode(["a", text, "b"])
        inner = expected[1:-1][:6] if side == "right" else expected[1:-1][-6:]
        assert tokens.ids[1].tolist() == [CLS, *inner, SEP]
        assert [tokens.lengths[0], tokens.lengths[2]] == [3, 3]
        assert encoder.count(["a", text, "b"]).tolist() == [3, len(expected), 3]
        assert (tokens.counts[1] > 8) == (len(expected) > 8)


def test_a_long_text_is_read_whole_where_spaces_do_not_end_a_word(tmp_path: Path) -> None:
    words = models.WordLevel({"x y": 0, "?": 1}, unk_token="?")  # noqa: S106  no password
    spaces_inside = Tokenizer(words)
    spaces_inside.pre_tokenizer = pre_tokenizers.Split("|", "removed")
    spaces_vanish = Tokenizer(models.WordPiece({"a": 0, "##a": 1, "?": 2}, unk_token="?"))  # noqa: S106
    spaces_vanish.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    spaces_vanish.normalizer = normalizers.Replace(" ", "")
    for tokenizer, text in ((spaces_inside, "x y|" * 20_000), (spaces_vanish, "a " * 20_000)):
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        expected = tokenizer.encode(text).ids
        encoder = Encoder(TokenizerFiles(path=tmp_path / "tokenizer.json"), max_tokens=8)
        assert encoder.encode([text]).ids[0].tolist() == expected[:8]
        assert encoder.count([text]).tolist() == [len(expected)]


@pytest.mark.parametrize("limit", [-1, 0, 1, 2])
def test_a_limit_without_room_for_a_token_of_the_text_is_refused(file: Path, limit: int) -> None:
    with pytest.raises(SettingError, match="2 special tokens") as caught:
        Encoder(TokenizerFiles(path=file), max_tokens=limit)
    assert (caught.value.name, caught.value.value) == ("max_tokens", limit)


def test_without_special_tokens_a_limit_of_one_is_enough(tmp_path: Path) -> None:
    files = TokenizerFiles(path=write_byte_tokenizer(tmp_path))
    encoder = Encoder(files, max_tokens=1)
    tokens = encoder.encode(["", "abc", "a"])
    assert tokens.lengths.tolist() == [0, 1, 1]
    assert tokens.counts.tolist() == [0, 3, 1]
    with pytest.raises(SettingError):
        Encoder(files, max_tokens=0)


def test_every_byte_of_a_text_reaches_the_ids(tmp_path: Path) -> None:
    file = write_byte_tokenizer(tmp_path)
    encoder = Encoder(TokenizerFiles(path=file), max_tokens=1000)
    decoder = Tokenizer.from_file(str(file))
    for text in (
        "ab\x00cd",
        "\x00",
        "\ufeffmark",
        "\u00e9",
        "e\u0301",
        " a  b\r\n\t",
        "\u202e\u200b",
        "\U0001f469\u200d\U0001f467",
        "[SEP] [CLS]",
    ):
        (ids,) = ids_of(encoder, text)
        assert len(ids) == len(text.encode())
        assert decoder.decode(ids) == text


def test_a_nul_does_not_end_a_text(file: Path) -> None:
    encoder = Encoder(TokenizerFiles(path=file), max_tokens=32)
    whole, cut = ids_of(encoder, "ab\x00cd", "ab")
    assert len(whole) > len(cut)


def test_words_of_no_vocabulary_become_unknown_tokens(file: Path) -> None:
    encoder = Encoder(TokenizerFiles(path=file), max_tokens=32)
    for text in ("\u4f60\u597d", "\u0645\u0631\u062d\u0628\u0627", "\U0001f642\U0001f642"):
        (ids,) = ids_of(encoder, text)
        assert set(ids[1:-1]) == {UNK}


def test_a_vocabulary_alone_gives_the_ids_of_its_tokenizer(file: Path, tmp_path: Path) -> None:
    vocabulary = write_vocabulary(file.parent, tmp_path / "vocab.txt")
    one = Encoder(TokenizerFiles(path=file), max_tokens=32)
    other = Encoder(TokenizerFiles(path=vocabulary), max_tokens=32)
    texts = random_texts(1000, longest=100)
    assert ids_of(one, *texts) == ids_of(other, *texts)
    np.testing.assert_array_equal(one.count(texts), other.count(texts))


@pytest.mark.weights
def test_a_real_vocabulary_alone_gives_the_ids_of_its_tokenizer(
    minilm: Engine, tmp_path: Path
) -> None:
    vocabulary = write_vocabulary(minilm.path, tmp_path / "vocab.txt")
    one = Encoder(TokenizerFiles(path=minilm.path / "tokenizer.json"), max_tokens=256)
    other = Encoder(TokenizerFiles(path=vocabulary), max_tokens=256)
    texts = [
        *random_texts(2000, longest=400),
        "\u0130stanbul \u039f\u0394\u039f\u03a3 \u1100\u1161",
    ]
    assert ids_of(one, *texts) == ids_of(other, *texts)
    whole = untruncated(minilm.path / "tokenizer.json").encode_batch(texts)
    assert one.count(texts).tolist() == [len(encoding) for encoding in whole]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_vocabulary_may_have_the_line_endings_of_windows(
    file: Path, tmp_path: Path, ending: str
) -> None:
    vocabulary = write_vocabulary(file.parent, tmp_path / "vocab.txt")
    vocabulary.write_bytes(vocabulary.read_bytes().replace(b"\n", ending.encode()))
    encoder = Encoder(TokenizerFiles(path=vocabulary), max_tokens=32)
    assert UNK not in ids_of(encoder, "the cat sits")[0]


def vocabulary_encoder(
    folder: Path, words: list[str], options: BertOptions, *, lowercase: bool = False
) -> Encoder:
    vocabulary = folder / "vocab.txt"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary.write_text("\n".join([*special, *words]) + "\n", encoding="utf-8")
    files = TokenizerFiles(path=vocabulary, lowercase=lowercase, bert_options=options)
    return Encoder(files, max_tokens=32)


def test_the_options_of_a_bert_tokenizer_do_what_they_say(tmp_path: Path) -> None:
    words = ["caf\u00e9", "cafe", "Caf\u00e9", "\u4e2d\u6587", "\u4e2d", "\u6587"]
    ids = {word: number for number, word in enumerate(words, start=5)}

    def only(text: str, **options: Any) -> list[int]:
        encoder = vocabulary_encoder(tmp_path, words, BertOptions(**options))
        return ids_of(encoder, text)[0][1:-1]

    assert only("CAF\u00c9") == [ids["cafe"]]  # accents go with the case, as transformers does it
    assert only("CAF\u00c9", strip_accents=False) == [ids["caf\u00e9"]]
    assert only("Caf\u00e9", lowercase=False) == [ids["Caf\u00e9"]]
    assert only("caf\u00e9", lowercase=False, strip_accents=True) == [ids["cafe"]]
    assert only("\u4e2d\u6587") == [ids["\u4e2d"], ids["\u6587"]]
    assert only("\u4e2d\u6587", chinese_characters=False) == [ids["\u4e2d\u6587"]]


def test_lowercase_comes_before_the_tokenizers_own_rules(tmp_path: Path) -> None:
    cased = BertOptions(lowercase=False)
    plain = vocabulary_encoder(tmp_path, ["cat", "CAT"], cased)
    lower = vocabulary_encoder(tmp_path, ["cat", "CAT"], cased, lowercase=True)
    assert ids_of(plain, "cat", "CAT") == [[CLS, 5, SEP], [CLS, 6, SEP]]
    assert ids_of(lower, "cat", "CAT") == [[CLS, 5, SEP], [CLS, 5, SEP]]


def test_lowercase_works_for_a_tokenizer_without_a_normalizer(tmp_path: Path) -> None:
    file = write_byte_tokenizer(tmp_path)
    lower = Encoder(TokenizerFiles(path=file, lowercase=True), max_tokens=32)
    plain = Encoder(TokenizerFiles(path=file), max_tokens=32)
    assert ids_of(lower, "ABC") == ids_of(plain, "abc")


@pytest.mark.parametrize("missing", ["[UNK]", "[CLS]", "[SEP]"])
def test_a_vocabulary_that_lacks_a_special_token_is_refused(
    file: Path, tmp_path: Path, missing: str
) -> None:
    vocabulary = write_vocabulary(file.parent, tmp_path / "vocab.txt")
    text = vocabulary.read_text("utf-8").replace(missing, "[other]")
    vocabulary.write_text(text, encoding="utf-8")
    with pytest.raises(ModelFormatError) as caught:
        Encoder(TokenizerFiles(path=vocabulary), max_tokens=32)
    assert missing in caught.value.reason
    assert caught.value.path == str(vocabulary)


@pytest.mark.parametrize("missing", ["[PAD]", "[MASK]"])
def test_a_vocabulary_may_lack_the_special_tokens_that_no_text_needs(
    file: Path, tmp_path: Path, missing: str
) -> None:
    vocabulary = write_vocabulary(file.parent, tmp_path / "vocab.txt")
    text = vocabulary.read_text("utf-8").replace(missing, "[other]")
    vocabulary.write_text(text, encoding="utf-8")
    encoder = Encoder(TokenizerFiles(path=vocabulary), max_tokens=32)
    expected = Encoder(TokenizerFiles(path=file), max_tokens=32)
    assert ids_of(encoder, "the cat") == ids_of(expected, "the cat")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b"null", b'{"version": "1.0"}', b"\xff\xfe\x00", b"\x00" * 9],
)
@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.txt"])
def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(ModelFormatError, match="is no tokenizer") as caught:
        Encoder(TokenizerFiles(path=file), max_tokens=32)
    assert caught.value.path == str(file)


def test_a_file_that_vanished_is_named(tmp_path: Path) -> None:
    for name in ("tokenizer.json", "vocab.txt"):
        with pytest.raises(ModelFormatError) as caught:
            Encoder(TokenizerFiles(path=tmp_path / name), max_tokens=32)
        assert caught.value.path == str(tmp_path / name)


@pytest.mark.parametrize(
    "model",
    [
        models.WordLevel({"a": 0}, unk_token="[UNK]"),  # noqa: S106  no password
        models.WordPiece({"a": 0}, unk_token="[UNK]"),  # noqa: S106
        models.Unigram([("a", 0.0)]),
    ],
    ids=["WordLevel", "WordPiece", "Unigram"],
)
def test_a_text_that_needs_a_missing_unknown_token_is_a_clear_error(
    tmp_path: Path, model: Any
) -> None:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    encoder = Encoder(TokenizerFiles(path=tmp_path / "tokenizer.json"), max_tokens=8)
    assert ids_of(encoder, "a a") == [[0, 0]]
    for texts in (["\u4f60"], ["a", "\u4f60"]):
        for method in (encoder.encode, encoder.count):
            with pytest.raises(ModelFormatError, match=r"tokenizer\.json: the tokenizer failed"):
                method(texts)
    assert ids_of(encoder, "a", "a a") == [[0], [0, 0]]


def test_two_texts_are_never_a_pair(file: Path) -> None:
    encoder = Encoder(TokenizerFiles(path=file), max_tokens=32)
    assert ids_of(encoder, "the", "cat") == [ids_of(encoder, text)[0] for text in ("the", "cat")]


def together(jobs: list[Any]) -> list[Any]:
    """The results of jobs that start at the same moment, each in a thread of its own."""
    barrier = threading.Barrier(len(jobs))

    def start(job: Any) -> Any:
        barrier.wait(20)
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(start, jobs))


def flat(encoder: Encoder, texts: list[str]) -> npt.NDArray[np.int64]:
    tokens = encoder.encode(texts)
    return np.concatenate([*tokens.ids, tokens.lengths, tokens.counts])


def test_sixteen_threads_get_the_ids_of_one(file: Path) -> None:
    encoder = Encoder(TokenizerFiles(path=file), max_tokens=16)
    texts = random_texts(100, longest=100)
    expected = flat(encoder, texts)

    def job() -> bool:
        return all(np.array_equal(flat(encoder, texts), expected) for _ in range(5))

    assert together([job] * 16) == [True] * 16


def test_two_limits_at_a_time_do_not_disturb_each_other(file: Path) -> None:
    texts = random_texts(40, longest=200)
    limits = (8, 32)
    encoders = {limit: Encoder(TokenizerFiles(path=file), max_tokens=limit) for limit in limits}
    expected = {limit: flat(encoder, texts) for limit, encoder in encoders.items()}

    def job(limit: int) -> bool:
        return all(
            np.array_equal(flat(encoders[limit], texts), expected[limit])
            and encoders[limit].encode(["a " * 100]).lengths[0] == limit
            for _ in range(8)
        )

    jobs = [lambda limit=limits[i % 2]: job(limit) for i in range(16)]
    assert together(jobs) == [True] * 16


def test_neither_the_environment_nor_the_file_is_written(file: Path) -> None:
    environment, content = dict(os.environ), file.read_bytes()
    encoder = Encoder(TokenizerFiles(path=file), max_tokens=16)
    encoder.encode(["a", "b", "c"] * 50)
    assert dict(os.environ) == environment
    assert file.read_bytes() == content


def test_a_panic_of_the_tokenizer_is_our_error_too(file: Path, tmp_path: Path) -> None:
    values = json.loads(file.read_text("utf-8"))
    values["post_processor"]["special_tokens"] = {}
    broken = tmp_path / "tokenizer.json"
    broken.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(ModelFormatError) as caught:
        Encoder(TokenizerFiles(path=broken), max_tokens=8).encode(["a"])
    assert caught.value.path == str(broken)
