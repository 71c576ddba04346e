from __future__ import annotations

import pytest

from onnx_embeddings.families import is_compiled, pad_id, positions


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "bert", "max_position_embeddings": 512}, 512),
        ({"model_type": "xlm-roberta", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "roberta", "max_position_embeddings": 514}, 512),
        ({"model_type": "mpnet", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "roberta", "max_position_embeddings": 1}, None),
        ({"model_type": "bert"}, None),
        ({"model_type": "bert", "max_position_embeddings": "512"}, None),
        ({"max_position_embeddings": 0}, None),
    ],
)
def test_positions_start_behind_the_padding_of_some_families(
    config: dict[str, object], expected: int | None
) -> None:
    assert positions(config) == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, 0),
        ({"model_type": "xlm-roberta"}, 1),
        ({"model_type": "xlm-roberta", "pad_token_id": 5}, 5),
        ({"pad_token_id": -1}, 0),
        ({"pad_token_id": "1"}, 0),
        ({"pad_token_id": True}, 0),
    ],
)
def test_the_padding_token_is_the_configs_or_the_familys(
    config: dict[str, object], expected: int
) -> None:
    assert pad_id(config) == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "bert"}, True),
        ({"model_type": "bert", "position_embedding_type": "absolute"}, True),
        ({"model_type": "bert", "position_embedding_type": "alibi"}, False),
        ({"model_type": "bert", "is_decoder": True}, False),
        ({"model_type": "t5"}, False),
        ({}, False),
    ],
)
def test_only_what_the_compiler_knows_is_compiled(
    config: dict[str, object], *, expected: bool
) -> None:
    assert is_compiled(config) is expected
