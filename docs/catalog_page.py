"""Writes docs/catalog.md: python docs/catalog_page.py. A test fails when it is old."""

from __future__ import annotations

from pathlib import Path

from onnx_embeddings import catalog, families

PAGE = Path(__file__).parent / "catalog.md"
_COLUMNS = (
    *("model", "numbers", "tokens", "pooling", "languages", "parameters", "licence"),
    *("runs from", "facts"),
)


def page() -> str:
    """The whole page."""
    known = {model.name: model for model in catalog.models().values()}
    unsupported = [model for model in known.values() if model.unsupported]
    parts = [
        "# Catalog",
        (
            "Models that are known by name, or by the part of it behind the slash. Any other model "
            "of the hub works by its name too, where its architecture is compiled or it has a "
            "ready ONNX file. `onnx_embeddings.list_models()` gives this list, "
            "`onnx-embeddings list` shows it, `onnx-embeddings info MODEL` one of it."
        ),
        (
            "What the files of a model say wins over this page. Of what stands here an engine uses "
            'the prompts alone, and only where the files say none; `query_prompt=""` turns one '
            "off. Facts of models marked *card* were taken from public cards and from the code of "
            "others, and not checked against the files; none of those models was run here."
        ),
        _table(catalog.list_models()),
        "## Prompts",
        (
            "Put before every query and every document, unless the files of the model or you say "
            "otherwise."
        ),
        _prompts(catalog.list_models()),
        "## Not supported yet",
        "\n".join(f"- `{model.name}`: {model.unsupported}" for model in unsupported),
    ]
    return "\n\n".join(parts) + "\n"


def _table(models: tuple[catalog.CatalogModel, ...]) -> str:
    rows = [f"| {' | '.join(_COLUMNS)} |", f"|{len(_COLUMNS) * '---|'}"]
    for model in models:
        cut = f", or {', '.join(map(str, model.matryoshka))}" if model.matryoshka else ""
        compiled = model.family in families.COMPILED_FAMILIES and not _is_jina(model)
        cells = [
            f"`{model.name}`",
            f"{model.dim}{cut}",
            f"{model.max_tokens:,}",
            model.pooling or "",
            ", ".join(model.languages),
            f"{model.parameters / 1e6:.0f} M" if model.parameters else "",
            f"{model.licence} {model.licence_note or ''}".strip(),
            "its weights" if compiled else f"`{model.ready}`",
            model.source,
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _is_jina(model: catalog.CatalogModel) -> bool:
    # They call themselves bert and are not: their positions are no table.
    return model.name.startswith("jinaai/")


def _prompts(models: tuple[catalog.CatalogModel, ...]) -> str:
    rows = ["| model | query | document |", "|---|---|---|"]
    rows += [
        f"| `{model.name}` | {_code(model.query_prompt)} | {_code(model.document_prompt)} |"
        for model in models
        if model.query_prompt or model.document_prompt
    ]
    return "\n".join(rows)


def _code(prompt: str | None) -> str:
    return f"`{prompt!r}`" if prompt else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
