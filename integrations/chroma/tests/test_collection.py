"""In Chroma's collections: what is kept, what opens again, and what the guard refuses."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from chromadb.api.async_client import AsyncClient
from chromadb.utils.embedding_functions import DefaultEmbeddingFunction

import onnx_embeddings
from chroma_onnx_embeddings import OnnxEmbeddingFunction, open_collection
from onnx_embeddings import ModelSpec
from onnx_embeddings.errors import InputError, ModelNotFoundError, SettingError, SpecMismatchError
from onnx_embeddings.shared import loaded_models
from onnx_embeddings.testing import write_tiny_model

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

pytestmark = pytest.mark.usefixtures("no_sockets")

TEXTS = ["a cat sits", "the blue bird flies", "one red sun"]
IDS = ["1", "2", "3"]


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Another model with vectors of the same size."""
    return str(write_tiny_model(tmp_path_factory.mktemp("models") / "other", seed=21))


def kept(client: ClientAPI, name: str = "notes") -> tuple[Any, Any, int]:
    """Everything that a guard must not change."""
    collection = client.get_collection(name)
    return collection.metadata, collection.configuration_json, collection.count()


def in_a_fresh_process(code: str, *arguments: object) -> str:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# Adding and asking


def test_a_collection_holds_the_engines_vectors_and_finds_with_its_query_prompt(
    client: ClientAPI, tiny: str
) -> None:
    # For cosine, Chroma divides by the length once more, which may turn a last bit.
    dot: Any = {"hnsw": {"space": "ip"}}
    notes = open_collection(client, "notes", OnnxEmbeddingFunction(tiny), configuration=dot)
    with onnx_embeddings.load(tiny) as engine:
        documents, (query,) = engine.embed_documents(TEXTS), engine.embed_queries(["a cat"])

    notes.add(ids=IDS, documents=TEXTS)
    stored = notes.get(ids=IDS, include=["embeddings"])["embeddings"]
    found = notes.query(query_texts=["a cat"], n_results=3)

    assert np.array_equal(np.asarray(stored, np.float32), documents)
    nearest = np.argsort(-(documents @ query))
    assert found["ids"] == [[IDS[row] for row in nearest]]
    distances = found["distances"]
    assert distances is not None
    assert np.allclose(distances[0], 1 - (documents @ query)[nearest], atol=1e-5)


def test_update_and_upsert_embed_too(client: ClientAPI, tiny: str) -> None:
    notes = open_collection(client, "notes", OnnxEmbeddingFunction(tiny))
    notes.add(ids=IDS, documents=TEXTS)
    notes.update(ids=["1"], documents=["a dog runs"])
    notes.upsert(ids=["4"], documents=["a dog runs"])

    first, last = np.asarray(notes.get(["1", "4"], include=["embeddings"])["embeddings"])
    assert np.array_equal(first, last)


def test_a_new_collection_uses_cosine_unless_told_otherwise(client: ClientAPI, tiny: str) -> None:
    ef = OnnxEmbeddingFunction(tiny)

    plain = open_collection(client, "plain", ef)
    dot = open_collection(client, "dot", ef, configuration={"hnsw": {"space": "ip"}})

    assert plain.configuration_json["hnsw"]["space"] == "cosine"
    assert dot.configuration_json["hnsw"]["space"] == "ip"


@pytest.mark.parametrize("bad", [["a cat", None], ["a cat", 3]])
def test_a_bad_document_is_refused_and_nothing_is_written(
    client: ClientAPI, tiny: str, bad: Any
) -> None:
    notes = open_collection(client, "notes", OnnxEmbeddingFunction(tiny))

    with pytest.raises(ValueError, match="document to be a str"):  # Chroma's own check
        notes.add(ids=["1", "2"], documents=bad)
    with pytest.raises(InputError, match="index 1"):
        notes.add(ids=["1", "2"], documents=["a cat", "\ud800"])
    assert notes.count() == 0


def test_many_writes_and_queries_use_one_engine(client: ClientAPI, tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "own", seed=14)
    before = loaded_models()
    open_collection(client, "notes", OnnxEmbeddingFunction(folder))
    notes = client.get_collection("notes")  # Chroma rebuilds the function for every call

    for number in range(25):
        notes.add(ids=[str(number)], documents=["a cat"])
        notes.query(query_texts=["a cat"])

    assert loaded_models() == before + 1
    assert OnnxEmbeddingFunction(folder).engine.stats().texts == 50


# Opened again


def test_chroma_keeps_the_name_and_the_request(client: ClientAPI, tiny: str) -> None:
    ef = OnnxEmbeddingFunction(tiny, dim=8, engine_options={"lanes": 1})
    client.create_collection("notes", embedding_function=ef)  # type: ignore[arg-type]

    assert client.get_collection("notes").configuration_json["embedding_function"] == {
        "type": "known",
        "name": "onnx_embeddings",
        "config": ef.request.to_dict(),
    }


def test_a_model_that_is_not_there_is_kept_all_the_same(client: ClientAPI, tmp_path: Path) -> None:
    ef = OnnxEmbeddingFunction(tmp_path / "nothing")
    client.create_collection("notes", embedding_function=ef)  # type: ignore[arg-type]

    notes = client.get_collection("notes")
    assert notes.configuration_json["embedding_function"]["name"] == "onnx_embeddings"
    with pytest.raises(ModelNotFoundError, match="nothing"):
        notes.add(ids=IDS, documents=TEXTS)


def test_opened_without_a_function_the_request_that_was_kept_is_used(
    client: ClientAPI, tiny: str
) -> None:
    ef = OnnxEmbeddingFunction(tiny, dim=8, query_prompt="q: ")
    open_collection(client, "notes", ef).add(ids=IDS, documents=TEXTS)

    for again in (client.get_collection("notes"), client.get_or_create_collection("notes")):
        own = open_collection(client, "notes", ef)
        assert again.query(query_texts=["a cat"]) == own.query(query_texts=["a cat"])


OPENED_AGAIN = """
import sys, chromadb
from chromadb.config import Settings
if sys.argv[2] == "imported":
    import chroma_onnx_embeddings
settings = Settings(anonymized_telemetry=False)
notes = chromadb.PersistentClient(path=sys.argv[1], settings=settings).get_collection("notes")
for act in (lambda: notes.query(query_texts=["a cat"])["ids"][0],
            lambda: notes.add(ids=["4"], documents=["a dog"]) or notes.count()):
    try:
        print(act())
    except ValueError as error:
        print(error)
"""


def test_another_process_opens_it_after_one_import(tmp_path: Path, tiny: str) -> None:
    made = """
        import sys, chromadb
        from chromadb.config import Settings
        from chroma_onnx_embeddings import OnnxEmbeddingFunction, open_collection
        settings = Settings(anonymized_telemetry=False)
        client = chromadb.PersistentClient(path=sys.argv[1], settings=settings)
        notes = open_collection(client, "notes", OnnxEmbeddingFunction(sys.argv[2]))
        notes.add(ids=["1", "2", "3"], documents=["a cat sits", "the blue bird flies", "one sun"])
        print(notes.query(query_texts=["a cat"])["ids"][0])
    """
    found = in_a_fresh_process(made, tmp_path / "db", tiny)

    again = in_a_fresh_process(OPENED_AGAIN, tmp_path / "db", "imported")
    without = in_a_fresh_process(OPENED_AGAIN, tmp_path / "db", "not imported")

    assert again.splitlines() == [found.strip(), "4"]
    # Chroma's own words, which docs/chroma.md explains.
    message = (
        "Embedding function onnx_embeddings not found. "
        "Add @register_embedding_function decorator to the class definition."
    )
    assert without.splitlines() == [f"{message} in query.", f"{message} in add."]
    assert message in (Path(__file__).parents[3] / "docs" / "chroma.md").read_text("utf-8")


# The guard: a function that is given


def test_what_plain_chroma_can_not_catch(client: ClientAPI, tiny: str, other: str) -> None:
    """Chroma compares names only; this pins why open_collection is there."""
    open_collection(client, "notes", OnnxEmbeddingFunction(tiny)).add(ids=IDS, documents=TEXTS)
    wrong = OnnxEmbeddingFunction(other)

    notes = client.get_collection("notes", embedding_function=wrong)  # type: ignore[arg-type]
    notes.query(query_texts=["a cat"])  # vectors of one model among those of another

    with pytest.raises(SpecMismatchError):
        wrong.check(notes)


def test_another_model_is_refused_before_anything_is_embedded(
    client: ClientAPI, tiny: str, other: str
) -> None:
    open_collection(client, "notes", OnnxEmbeddingFunction(tiny)).add(ids=IDS, documents=TEXTS)
    before = kept(client)
    wrong = OnnxEmbeddingFunction(other)

    for refuse in (
        lambda: open_collection(client, "notes", wrong, metadata={"topic": "cats"}),
        lambda: wrong.check(client.get_collection("notes")),
    ):
        with pytest.raises(SpecMismatchError, match="collection 'notes'") as raised:
            refuse()
        assert (raised.value.stored, raised.value.given) == (tiny, other)
        assert "weights" in raised.value.differences
    assert wrong.engine.stats().texts == 0
    assert kept(client) == before


def test_other_settings_are_refused_unless_the_same_space_will_do(
    client: ClientAPI, tiny: str
) -> None:
    open_collection(client, "notes", OnnxEmbeddingFunction(tiny)).add(ids=IDS, documents=TEXTS)
    before = kept(client)
    prompted = OnnxEmbeddingFunction(tiny, query_prompt="find: ")

    with pytest.raises(SpecMismatchError, match=r"(?s)query_prompt.*find: .*accept='same-space'"):
        open_collection(client, "notes", prompted)
    notes = open_collection(client, "notes", prompted, accept="same-space")
    assert notes.query(query_texts=["a cat"])["ids"]
    prompted.check(notes, accept="same-space")
    with pytest.raises(SpecMismatchError, match="dim"):
        open_collection(client, "notes", OnnxEmbeddingFunction(tiny, dim=8), accept="same-space")
    with pytest.raises(SettingError, match="accept='other'"):
        prompted.check(notes, accept="other")  # type: ignore[arg-type]
    assert kept(client) == before


def test_a_collection_opens_again_and_again_unchanged(client: ClientAPI, tiny: str) -> None:
    ef = OnnxEmbeddingFunction(tiny)
    notes = open_collection(client, "notes", ef, metadata={"topic": "cats"})
    notes.add(ids=IDS, documents=TEXTS)
    before = kept(client)

    again = open_collection(client, "notes", ef, metadata={"topic": "dogs"})

    assert (again.metadata or {})["topic"] == "cats"
    assert again.id == notes.id
    assert kept(client) == before


def test_a_new_collection_says_what_makes_its_vectors(client: ClientAPI, tiny: str) -> None:
    ef = OnnxEmbeddingFunction(tiny)
    notes = open_collection(client, "notes", ef, metadata={"topic": "cats"})

    assert set(notes.metadata or {}) == {"topic", "onnx_embeddings"}
    record = json.loads((notes.metadata or {})["onnx_embeddings"])
    assert ModelSpec.from_dict(record) == ef.engine.spec


def test_a_folder_whose_content_was_replaced_is_noticed(client: ClientAPI, tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "model", seed=31)
    open_collection(client, "notes", OnnxEmbeddingFunction(folder)).add(ids=IDS, documents=TEXTS)
    shutil.rmtree(folder)
    write_tiny_model(folder, seed=32)
    again = OnnxEmbeddingFunction(folder)
    again.engine.close()  # as a process of tomorrow: the shared engine still has the old content

    with pytest.raises(SpecMismatchError, match="weights"):
        open_collection(client, "notes", again)


def test_the_same_model_in_another_folder_is_welcome(
    client: ClientAPI, tiny: str, tmp_path: Path
) -> None:
    open_collection(client, "notes", OnnxEmbeddingFunction(tiny)).add(ids=IDS, documents=TEXTS)
    moved = shutil.copytree(tiny, tmp_path / "moved")

    notes = open_collection(client, "notes", OnnxEmbeddingFunction(moved))

    assert notes.query(query_texts=["a cat"])["ids"]


# The guard: collections without a record


def without_record(client: ClientAPI, ef: OnnxEmbeddingFunction) -> Any:
    notes = client.create_collection("notes", embedding_function=ef)  # type: ignore[arg-type]
    notes.add(ids=IDS, documents=TEXTS)
    return notes


def test_without_a_record_equal_requests_will_do(client: ClientAPI, tiny: str) -> None:
    without_record(client, OnnxEmbeddingFunction(tiny, dim=8))
    before = kept(client)

    open_collection(client, "notes", OnnxEmbeddingFunction(tiny, dim=8))

    assert kept(client) == before


def test_without_a_record_equal_requests_need_no_model(client: ClientAPI) -> None:
    gone = OnnxEmbeddingFunction("org/not-here")
    notes = client.create_collection("notes", embedding_function=gone)  # type: ignore[arg-type]

    OnnxEmbeddingFunction("org/not-here").check(notes)


def test_metadata_that_is_replaced_loses_the_record(client: ClientAPI, tiny: str) -> None:
    notes = open_collection(client, "notes", OnnxEmbeddingFunction(tiny))
    notes.modify(metadata={**(notes.metadata or {}), "topic": "cats"})
    assert "onnx_embeddings" in (client.get_collection("notes").metadata or {})

    notes.modify(metadata={"topic": "cats"})

    assert "onnx_embeddings" not in (client.get_collection("notes").metadata or {})
    open_collection(client, "notes", OnnxEmbeddingFunction(tiny))
    with pytest.raises(SpecMismatchError, match="document_prompt"):
        open_collection(client, "notes", OnnxEmbeddingFunction(tiny, document_prompt="x: "))


def test_without_a_record_other_requests_are_compared_by_what_they_mean(
    client: ClientAPI, tiny: str, other: str, tmp_path: Path
) -> None:
    notes = without_record(client, OnnxEmbeddingFunction(tiny))

    OnnxEmbeddingFunction(shutil.copytree(tiny, tmp_path / "moved")).check(notes)
    OnnxEmbeddingFunction(tiny, dim=32).check(notes)
    OnnxEmbeddingFunction(tiny, query_prompt="q: ").check(notes, accept="same-space")
    with pytest.raises(SpecMismatchError, match="weights"):
        OnnxEmbeddingFunction(other).check(notes, accept="same-space")


def test_without_a_record_and_without_its_model_other_requests_are_refused(
    client: ClientAPI, tiny: str, tmp_path: Path
) -> None:
    gone = shutil.copytree(tiny, tmp_path / "gone")
    notes = without_record(client, OnnxEmbeddingFunction(gone))
    shutil.rmtree(gone)
    wrong = OnnxEmbeddingFunction(tiny)

    with pytest.raises(SpecMismatchError, match="can't be opened here") as raised:
        open_collection(client, "notes", wrong)

    assert raised.value.differences == {"model": (str(gone), tiny)}
    assert isinstance(raised.value.__cause__, ModelNotFoundError)
    with pytest.raises(SpecMismatchError):
        wrong.check(notes)


def test_the_model_of_before_is_looked_for_in_the_same_home_and_never_fetched(
    client: ClientAPI, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = OnnxEmbeddingFunction("org/not-here")
    notes = client.create_collection("notes", embedding_function=gone)  # type: ignore[arg-type]
    asked = []

    def load(request: Any, *, config: Any) -> Any:
        asked.append((request.model, config.home, config.offline))
        return real(request, config=config)

    real = onnx_embeddings.load
    monkeypatch.setattr(onnx_embeddings, "load", load)
    home = str(tmp_path / "elsewhere")
    with pytest.raises(SpecMismatchError):
        OnnxEmbeddingFunction(tiny, engine_options={"home": home}).check(notes)
    assert asked == [("org/not-here", home, True)]


@pytest.mark.parametrize("function", ["default", None])
def test_a_collection_of_another_function_or_none_says_what_to_do(
    client: ClientAPI, tiny: str, function: str | None
) -> None:
    if function:
        client.create_collection("notes")
    else:
        client.create_collection("notes", embedding_function=None)
    before = kept(client)

    said = repr(function) if function else "no embedding function"
    with pytest.raises(SpecMismatchError, match=rf"(?s){said}.*open_collection"):
        open_collection(client, "notes", OnnxEmbeddingFunction(tiny))
    assert kept(client) == before


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: "{",
        lambda _: "[]",
        lambda _: 3,
        lambda record: json.dumps(record | {"added_later": 1}),
        lambda record: json.dumps(record | {"dim": 31}),
        lambda record: json.dumps({"model": record["model"]}),
    ],
)
def test_a_record_that_can_not_be_read_is_an_error(
    client: ClientAPI, tiny: str, damage: Any
) -> None:
    ef = OnnxEmbeddingFunction(tiny)
    notes = open_collection(client, "notes", ef)
    record = json.loads((notes.metadata or {})["onnx_embeddings"])
    notes.modify(metadata={"onnx_embeddings": damage(record)})
    before = kept(client)

    with pytest.raises(SettingError, match=r"(?s)collection 'notes' can't be read.*upgrade"):
        open_collection(client, "notes", ef)
    assert kept(client) == before


# The guard: a configuration that is changed


def test_a_change_of_the_model_raises_after_chroma_has_stored_it(
    client: ClientAPI, tiny: str, other: str
) -> None:
    """Pins Chroma's order, store first and ask then, and the way back that the error names."""
    first, second = OnnxEmbeddingFunction(tiny), OnnxEmbeddingFunction(other)
    notes = open_collection(client, "notes", first)
    notes.add(ids=IDS, documents=TEXTS)
    before = kept(client)

    with pytest.raises(SpecMismatchError, match=r"(?s)weights.*put the old one back"):
        notes.modify(configuration={"embedding_function": second})

    stored = client.get_collection("notes").configuration_json["embedding_function"]["config"]
    assert stored["model"] == other
    first.check(client.get_collection("notes"))  # by the record, which is still there
    with pytest.raises(SpecMismatchError):
        second.check(client.get_collection("notes"))

    notes.modify(configuration={"embedding_function": first})
    assert kept(client) == before


def test_a_change_is_put_back_from_a_collection_that_was_opened_later(
    client: ClientAPI, tiny: str, other: str
) -> None:
    first = OnnxEmbeddingFunction(tiny)
    notes = open_collection(client, "notes", first)
    before = kept(client)
    with pytest.raises(SpecMismatchError):
        notes.modify(configuration={"embedding_function": OnnxEmbeddingFunction(other)})

    with pytest.raises(SpecMismatchError):
        client.get_collection("notes").modify(configuration={"embedding_function": first})

    assert kept(client) == before


def test_a_change_of_what_changes_no_vector_is_taken(
    client: ClientAPI, tiny: str, tmp_path: Path
) -> None:
    notes = open_collection(client, "notes", OnnxEmbeddingFunction(tiny))
    moved = OnnxEmbeddingFunction(shutil.copytree(tiny, tmp_path / "moved"))

    notes.modify(configuration={"embedding_function": moved})
    notes.modify(configuration={"hnsw": {"ef_search": 50}})

    again = client.get_collection("notes")
    assert again.configuration_json["embedding_function"]["config"] == moved.get_config()
    again.add(ids=IDS, documents=TEXTS)


@pytest.mark.parametrize("change", [{"dim": 8}, {"document_prompt": ""}, {"max_tokens": 5}])
def test_an_update_is_compared_by_what_it_was_given(tiny: str, change: dict[str, Any]) -> None:
    old, new = OnnxEmbeddingFunction(tiny), OnnxEmbeddingFunction(tiny, **change)

    for before, after in ((old, new), (new, old)):
        with pytest.raises(SpecMismatchError, match=next(iter(change))):
            after.validate_config_update(before.get_config(), after.get_config())
    new.validate_config_update(new.get_config(), new.get_config())


def test_an_update_from_a_model_that_is_gone_is_refused(tiny: str, tmp_path: Path) -> None:
    gone = OnnxEmbeddingFunction(tmp_path / "gone").get_config()
    new = OnnxEmbeddingFunction(tiny)

    with pytest.raises(SpecMismatchError, match="put the old one back") as raised:
        new.validate_config_update(gone, new.get_config())
    assert isinstance(raised.value.__cause__, ModelNotFoundError)


# What open_collection takes


def test_two_functions_in_one_call_are_refused(client: ClientAPI, tiny: str) -> None:
    ef = OnnxEmbeddingFunction(tiny)

    with pytest.raises(SettingError, match="another embedding function"):
        open_collection(
            client, "notes", ef, configuration={"embedding_function": OnnxEmbeddingFunction()}
        )
    assert client.count_collections() == 0
    open_collection(client, "notes", ef, configuration={"embedding_function": ef})


def test_the_configuration_that_is_given_is_not_changed(client: ClientAPI, tiny: str) -> None:
    configuration: Any = {"hnsw": {"ef_search": 50}}

    open_collection(client, "notes", OnnxEmbeddingFunction(tiny), configuration=configuration)

    assert set(configuration) == {"hnsw"}


def test_a_model_that_is_not_there_makes_no_collection(client: ClientAPI, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError):
        open_collection(client, "notes", OnnxEmbeddingFunction(tmp_path / "nothing"))
    assert client.count_collections() == 0


def test_an_asynchronous_client_is_told_what_to_do(tiny: str) -> None:
    client: Any = object.__new__(AsyncClient)  # a real one asks a server at once

    with pytest.raises(SettingError, match=r"asyncio\.to_thread"):
        open_collection(client, "notes", OnnxEmbeddingFunction(tiny))


@pytest.mark.parametrize(
    "function", [None, "org/name", 5, OnnxEmbeddingFunction, DefaultEmbeddingFunction]
)
def test_what_is_no_such_function_is_refused(client: ClientAPI, function: Any) -> None:
    given: Any = function() if function is DefaultEmbeddingFunction else function

    with pytest.raises(
        SettingError, match=r"^embedding_function=(?s:.*)OnnxEmbeddingFunction\(…\)"
    ):
        open_collection(client, "notes", given)
    assert client.count_collections() == 0


# The real model


@pytest.mark.weights
def test_the_real_model_finds_what_fits_and_refuses_another_way(
    client: ClientAPI, minilm: str
) -> None:
    ef = OnnxEmbeddingFunction(minilm)
    notes = open_collection(client, "notes", ef)
    notes.add(
        ids=IDS,
        documents=[
            "Knead the dough for ten minutes.",
            "Mrs. Keller services the boiler in October.",
            "We took the night train from Vienna to Rome.",
        ],
    )

    found = client.get_collection("notes").query(query_texts=["Who repairs the heating?"])

    assert found["ids"][0][0] == "2"
    cut = OnnxEmbeddingFunction(minilm, max_tokens=64)
    with pytest.raises(SpecMismatchError, match="max_tokens: stored 256, given 64"):
        open_collection(client, "notes", cut)
    assert replace(cut.engine.spec, max_tokens=256) == ef.engine.spec
