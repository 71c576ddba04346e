"""The example's chain, with a chat model that says what it was told."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

EXAMPLE = Path(__file__).parents[4] / "examples" / "langchain_chain.py"


class Repeating(GenericFakeChatModel):
    """Says what it was told."""

    def _generate(self, messages: Any, *arguments: Any, **options: Any) -> Any:
        text = "\n".join(str(message.content) for message in messages)
        object.__setattr__(self, "messages", iter([AIMessage(text)]))
        return super()._generate(messages, *arguments, **options)


@pytest.mark.weights
@pytest.mark.usefixtures("minilm", "no_sockets")
def test_the_chain_tells_the_chat_model_the_right_notes() -> None:
    example = runpy.run_path(str(EXAMPLE))
    model = Repeating(messages=iter([]))
    answer = example["chain"](example["OnnxEmbeddings"](), model).invoke("A pipe has burst!")
    assert answer.startswith("Answer from these notes only")
    assert answer.endswith("A pipe has burst!")
    assert "main valve" in answer
    assert "Paper" not in answer


@pytest.mark.weights
@pytest.mark.usefixtures("minilm", "no_sockets")
def test_without_a_chat_model_it_shows_what_one_would_be_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["langchain_chain.py"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    shown = [told.splitlines() for told in capsys.readouterr().out.strip().split("\n\n")]
    assert [question for question, *_ in shown] == [
        "Who repairs the heating?",
        "A pipe has burst, what do I do?",
    ]
    for (_, first, *_), words in zip(shown, ["Mrs. Keller", "main valve"], strict=True):
        assert words in first


@pytest.mark.weights
@pytest.mark.usefixtures("minilm", "no_sockets")
def test_another_question_may_be_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["langchain_chain.py", "--ask", "Where is a spare key?"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    question, first, *_ = capsys.readouterr().out.strip().splitlines()
    assert question == "Where is a spare key?"
    assert "neighbours" in first
