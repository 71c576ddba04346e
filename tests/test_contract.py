"""The contract of adapters holds for a right one and catches each kind of wrong one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

import onnx_embeddings
from onnx_embeddings import EngineConfig, ModelRequest
from onnx_embeddings.testing import check_adapter, check_import

if TYPE_CHECKING:
    import os

    from onnx_embeddings import Engine


class Right:
    """The shortest adapter that keeps the contract."""

    def __init__(
        self,
        model: str | os.PathLike[str] = onnx_embeddings.DEFAULT_MODEL,
        *,
        engine_options: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.request = ModelRequest(model=model, **settings)  # type: ignore[arg-type]  # takes paths
        self.config = EngineConfig.from_dict(engine_options or {})
        self.engine: Engine | None = None

    def opened(self) -> Engine:
        if self.engine is None:
            self.engine = onnx_embeddings.load(self.request, config=self.config)
        return self.engine

    def documents(self, texts: Any) -> Any:
        return self.opened().embed_documents(texts).tolist()

    def query(self, text: Any) -> Any:
        return self.opened().embed_queries([text])[0].tolist()

    async def adocuments(self, texts: Any) -> Any:
        return await asyncio.to_thread(self.documents, texts)

    async def aquery(self, text: Any) -> Any:
        return await asyncio.to_thread(self.query, text)


class Kept(Right):
    """With the engine that the process shares, as an adapter for Chroma has it."""

    def opened(self) -> Engine:
        return onnx_embeddings.load_shared(self.request, config=self.config)


def check(adapter: type[Right]) -> None:
    check_adapter(
        adapter,
        documents=lambda made, texts: made.documents(texts),
        query=lambda made, text: made.query(text),
        adocuments=lambda made, texts: made.adocuments(texts),
        aquery=lambda made, text: made.aquery(text),
    )


def test_a_right_adapter_passes() -> None:
    check(Right)


def test_it_passes_a_second_time_and_inside_a_running_loop() -> None:
    async def inside() -> None:
        check(Kept)

    for _ in range(2):
        asyncio.run(inside())


def test_it_passes_beside_another_model_that_is_open(tiny: Engine) -> None:
    tiny.embed_documents(["a text"])
    check(Right)


class QueriesAsDocuments(Right):
    def query(self, text: Any) -> Any:
        return self.documents([text])[0] if isinstance(text, str) else super().query(text)


class PromptTwice(Right):
    def query(self, text: Any) -> Any:
        return super().query("question: " + text if isinstance(text, str) else text)


class RewritesLines(Right):
    def documents(self, texts: Any) -> Any:
        if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
            texts = [text.replace("\n", " ") for text in texts]
        return super().documents(texts)


class Strips(Right):
    def documents(self, texts: Any) -> Any:
        if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
            texts = [text.strip() for text in texts]
        return super().documents(texts)


class DropsNul(Right):
    def query(self, text: Any) -> Any:
        return super().query(text.replace("\0", "") if isinstance(text, str) else text)


class ThrowsAway(Right):
    """Some setting that the tiny model can't have."""

    name = ""

    def __init__(self, model: str, **settings: Any) -> None:
        settings.pop(self.name, None)
        super().__init__(model, **settings)


class ThrowsAwayRevision(ThrowsAway):
    name = "revision"


class ThrowsAwayPrecision(ThrowsAway):
    name = "precision"


class ThrowsAwayVariant(ThrowsAway):
    name = "variant"


class ThrowsAwayLongText(ThrowsAway):
    name = "long_text"


class ChecksOptionsOnly(Right):
    def opened(self) -> Engine:
        self.config = EngineConfig(cache=None)
        return super().opened()


class DropsBlanks(Right):
    def documents(self, texts: Any) -> Any:
        if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
            texts = [text for text in texts if text.strip()]
        return super().documents(texts)


class TakesABareText(Right):
    def documents(self, texts: Any) -> Any:
        return super().documents([texts] if isinstance(texts, str) else texts)


class MakesTexts(Right):
    def documents(self, texts: Any) -> Any:
        return super().documents(
            [str(text) for text in texts] if isinstance(texts, list) else texts
        )


class Sorts(Right):
    def documents(self, texts: Any) -> Any:
        try:
            return super().documents(sorted(texts) if isinstance(texts, list) else texts)
        except TypeError:
            return super().documents(texts)


class FailsForNone(Right):
    def documents(self, texts: Any) -> Any:
        if texts == []:
            return [[0.0]]
        return super().documents(texts)


class LoadsAtOnce(Right):
    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.opened()


class TakesAnySetting(Right):
    def __init__(self, model: str, **settings: Any) -> None:
        settings.pop("no_such_setting", None)
        super().__init__(model, **settings)


class ForgetsASetting(Right):
    def __init__(self, model: str, **settings: Any) -> None:
        settings.pop("max_tokens", None)
        super().__init__(model, **settings)


class ForgetsThePromptOfQueries(Right):
    def __init__(self, model: str, **settings: Any) -> None:
        settings.pop("query_prompt", None)
        super().__init__(model, **settings)


class ForgetsTheEnginesOptions(Right):
    def __init__(self, model: str, **settings: Any) -> None:
        settings.pop("engine_options", None)
        super().__init__(model, **settings)


class CanNotBePickled(Right):
    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.lock = threading.Lock()


class PicklesWithoutSettings(Right):
    def __reduce__(self) -> Any:
        return (
            type(self),
            (self.request.model,),
            {"request": ModelRequest(model=self.request.model, dim=8)},
        )


class AsyncIsAnother(Right):
    async def aquery(self, text: Any) -> Any:
        return (await self.adocuments([text]))[0]


class NotForThreads(Right):
    last: Any = None

    def documents(self, texts: Any) -> Any:
        self.last = texts
        found = super().documents(texts)
        return found if self.last is texts else found[::-1]

    def query(self, text: Any) -> Any:
        self.last = text
        return super().query(text)


class RoundsNumbers(Right):
    def documents(self, texts: Any) -> Any:
        return [[round(number, 6) for number in row] for row in super().documents(texts)]


class OneSessionEach(Right):
    """Another seed of the weights makes another model."""

    others: list[Any] = []  # noqa: RUF012  kept on purpose

    def opened(self) -> Engine:
        if self.engine is None and self.request.folder is not None and self.request.folder.exists():
            from onnx_embeddings.testing import write_tiny_model

            other = write_tiny_model(
                self.request.folder.parent / f"other-{len(self.others)}", seed=len(self.others) + 50
            )
            self.others.append(onnx_embeddings.load(other))
        return super().opened()


WRONG = [
    Strips,
    DropsNul,
    ThrowsAwayRevision,
    ThrowsAwayPrecision,
    ThrowsAwayVariant,
    ThrowsAwayLongText,
    ChecksOptionsOnly,
    QueriesAsDocuments,
    PromptTwice,
    RewritesLines,
    DropsBlanks,
    TakesABareText,
    MakesTexts,
    Sorts,
    FailsForNone,
    LoadsAtOnce,
    TakesAnySetting,
    ForgetsASetting,
    ForgetsThePromptOfQueries,
    ForgetsTheEnginesOptions,
    CanNotBePickled,
    PicklesWithoutSettings,
    AsyncIsAnother,
    NotForThreads,
    RoundsNumbers,
    OneSessionEach,
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda kind: kind.__name__)
def test_a_wrong_adapter_is_caught(wrong: type[Right]) -> None:
    with pytest.raises((AssertionError, TypeError, onnx_embeddings.errors.ModelNotFoundError)):
        check(wrong)
    for engine in OneSessionEach.others:
        engine.close()


def test_a_wrong_document_method_is_caught_without_one_for_queries() -> None:
    async def wrong(made: Right, texts: Any) -> Any:
        return made.documents(texts)[::-1]

    with pytest.raises(AssertionError, match="awaited"):
        check_adapter(
            Right,
            documents=lambda made, texts: made.documents(texts),
            query=lambda made, text: made.query(text),
            adocuments=wrong,
        )


def test_the_contract_holds_without_assertions_too() -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from test_contract import RoundsNumbers, check\n"
        "try:\n"
        "    check(RoundsNumbers)\n"
        "except AssertionError as error:\n"
        "    print('caught')\n"
    )
    done = subprocess.run(
        [sys.executable, "-O", "-c", code], capture_output=True, text=True, check=False, timeout=100
    )
    assert done.stdout.splitlines()[-1:] == ["caught"], done.stderr


def test_an_import_that_loads_the_engine_is_caught() -> None:
    check_import("json", "json.dumps(1)", framework="json")
    check_import("onnx_embeddings", "onnx_embeddings.ModelRequest()", framework="json")
    for module, make in (
        ("onnxruntime", "1"),
        ("onnx_embeddings", "onnx_embeddings.Engine"),
        ("onnx_embeddings", "onnx_embeddings.load"),
    ):
        with pytest.raises(AssertionError, match="making one loads"):
            check_import(module, make, framework="json")
    with pytest.raises(AssertionError, match="SyntaxError"):
        check_import("json", "no code", framework="json")
