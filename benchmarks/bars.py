"""What the project promises, as data, and what a result says to it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.contestants import FASTEMBED, FP32, INT8, LIBEMBEDDING, TORCH

if TYPE_CHECKING:
    from collections.abc import Callable

    Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bar:
    """A promise.

    Attributes:
        promise: in words.
        value: what a result says; KeyError or StopIteration where it says nothing.
        at_least: the least that keeps it.
        at_most: the most that keeps it.
    """

    promise: str
    value: Callable[[Result], float]
    _: KW_ONLY
    at_least: float | None = None
    at_most: float | None = None

    def judge(self, result: Result) -> dict[str, Any]:
        """The value and whether the promise is kept; None for both if it was not measured."""
        value: float | None
        try:
            value = self.value(result)
        except (KeyError, StopIteration):
            value = None
        kept = value is not None and (
            (self.at_least is None or value >= self.at_least)
            and (self.at_most is None or value <= self.at_most)
        )
        return {
            "promise": self.promise,
            "value": value,
            "at_least": self.at_least,
            "at_most": self.at_most,
            "passed": None if value is None else kept,
        }


def best(rows: Result, library: str) -> str:
    """The name of the row of a library's fastest batch size, among those that ran to the end."""
    names = [name for name in rows if name == library or name.startswith(f"{library}, batch")]
    most = max(len(rows[name]["seconds_of_each_round"]) for name in names) if names else 0
    full = [name for name in names if len(rows[name]["seconds_of_each_round"]) == most]
    if not full:
        raise KeyError(library)
    return max(full, key=lambda name: rows[name]["texts_per_second"])


def faster(ours: str, theirs: str, *, at_best: bool = False) -> Callable[[Result], float]:
    """How many times their texts a second ours are, on texts as they come."""

    def value(result: Result) -> float:
        rows = result["bulk"]["mixed"]
        other = best(rows, theirs) if at_best else theirs
        ratio: float = rows[ours]["texts_per_second"] / rows[other]["texts_per_second"]
        return ratio

    return value


def at(*path: str) -> Callable[[Result], float]:
    """The value at a path of keys."""

    def value(result: Result) -> float:
        found: Any = result
        for key in path:
            found = found[key]
        return float(found)

    return value


def over(part: str, ours: str, key: str) -> Callable[[Result], float]:
    """Our value by FastEmbed's."""

    def value(result: Result) -> float:
        return float(result[part][ours][key] / result[part][FASTEMBED][key])

    return value


def run_of(result: Result, group: str, **wanted: Any) -> dict[str, Any]:
    """The run of a group of growth that has these values."""
    runs = result["growth"][group]
    found: dict[str, Any] = next(
        run for run in runs if all(run[key] == value for key, value in wanted.items())
    )
    return found


def growth(group: str, key: str, few: dict[str, Any], many: dict[str, Any]) -> Any:
    """Int8's value with many by that with few."""

    def value(result: Result) -> float:
        large = run_of(result, group, precision="int8", **many)
        small = run_of(result, group, precision="int8", **few)
        return float(large[key] / small[key])

    return value


def peak(count: int) -> Callable[[Result], float]:
    """MB of int8 over so many texts."""
    return lambda result: float(run_of(result, "texts", precision="int8", texts=count)["peak_mb"])


_THOUSAND, _TEN, _HUNDRED = ({"texts": count} for count in (1000, 10_000, 100_000))
_ONE_CORE, _TWO_CORES = {"cores": 1}, {"cores": 2}

BARS = (
    Bar("fp32, times FastEmbed as it comes", faster(FP32, FASTEMBED), at_least=4.0),
    Bar("fp32, times FastEmbed at its best", faster(FP32, FASTEMBED, at_best=True), at_least=2.2),
    Bar("fp32, times sentence-transformers on PyTorch", faster(FP32, TORCH), at_least=1.8),
    Bar("fp32, share of the sgemm roofline", at("roofline", "share"), at_least=0.88),
    Bar("int8, times FastEmbed as it comes", faster(INT8, FASTEMBED), at_least=11.0),
    Bar("int8, times FastEmbed at its best", faster(INT8, FASTEMBED, at_best=True), at_least=6.0),
    Bar(
        "int8, times libembedding-ng at its best",
        faster(INT8, LIBEMBEDDING, at_best=True),
        at_least=3.2,
    ),
    Bar("int8, times sentence-transformers on PyTorch", faster(INT8, TORCH), at_least=4.5),
    Bar("int8, times our fp32", faster(INT8, FP32), at_least=2.5),
    Bar("int8, cosine to fp32, mean", at("bulk", "mixed", INT8, "mean_cosine"), at_least=0.9985),
    Bar("int8, cosine to fp32, least", at("bulk", "mixed", INT8, "least_cosine"), at_least=0.996),
    Bar("int8, loss on STS-B en", at("quality", INT8, "below_fp32", "stsb_en"), at_most=0.1),
    Bar(
        "int8, loss on Cranfield, nDCG@10",
        at("quality", INT8, "below_fp32", "cranfield_ndcg_at_10"),
        at_most=0.003,
    ),
    *(
        Bar(
            f"{name.rsplit(', ', 1)[1]}, texts with other bits alone",
            at("quality", name, "alone", "other_bits_than_in_a_batch"),
            at_most=0,
        )
        for name in (FP32, INT8)
    ),
    Bar("fp32, lone query p50 by FastEmbed's", over("lone_query", FP32, "p50_ms"), at_most=1.0),
    Bar("int8, lone query p50 by FastEmbed's", over("lone_query", INT8, "p50_ms"), at_most=0.45),
    Bar(
        "fp32, second start by FastEmbed's",
        over("second_start", FP32, "median_seconds"),
        at_most=0.4,
    ),
    Bar(
        "int8, second start by FastEmbed's",
        over("second_start", INT8, "median_seconds"),
        at_most=0.4,
    ),
    Bar("int8, peak MB over 100,000 texts", peak(100_000), at_most=220.0),
    Bar(
        "int8, peak of 100,000 texts by that of 10,000",
        growth("texts", "peak_mb", _TEN, _HUNDRED),
        at_most=1.05,
    ),
    Bar(
        "int8, texts/s of 100,000 by those of 1,000",
        growth("texts", "texts_per_second", _THOUSAND, _HUNDRED),
        at_least=0.95,
    ),
    Bar(
        "int8, 2 cores by 1",
        growth("cores", "texts_per_second", _ONE_CORE, _TWO_CORES),
        at_least=1.9,
    ),
    Bar(
        "fp32, MB of the second session",
        at("memory", FP32, "second_session", "private_mb"),
        at_most=50.0,
    ),
)


def judge(result: Result) -> list[dict[str, Any]]:
    """Every bar, with what the result says to it."""
    return [bar.judge(result) for bar in BARS]
