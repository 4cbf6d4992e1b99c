"""Measures by the names that the field gives them: ``"nDCG@10"``, ``"P@5"``, ``"MAP"``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloister.core.errors import SettingsError
from cloister.measure.average_precision import average_precision
from cloister.measure.err import err
from cloister.measure.mean import NothingRelevant
from cloister.measure.ndcg import ndcg
from cloister.measure.precision import precision
from cloister.measure.ragged import checked_cutoff
from cloister.measure.ranked import Labelled, RankedLabels, rank_labels
from cloister.measure.ranking import Ties
from cloister.measure.reciprocal_rank import reciprocal_rank

__all__ = ["MeasureName", "evaluate", "evaluate_ranked", "measure_names", "parse_measure"]

_PATTERN: Final = re.compile(r"([A-Za-z]+)(?:@(-?\d+))?")
_MOST_DIGITS: Final = 20  # a longer number is refused all the same, and int() may not read it


class MeasureName(NamedTuple):
    """A measure and its cut-off, None for the whole ranking.

    Examples
    --------
    >>> str(MeasureName("nDCG", 10))
    'nDCG@10'
    """

    name: str
    k: int | None

    def __str__(self) -> str:
        return self.name if self.k is None else f"{self.name}@{self.k}"


@dataclass(frozen=True, kw_only=True)
class _Options:
    """What measures need beside the ranking and the cut-off."""

    max_grade: int | None
    relevant_grade: int
    nothing_relevant: NothingRelevant


_Values = NDArray[np.float64]
_Compute = Callable[[RankedLabels, int | None, _Options], _Values]


def _ndcg(ranked: RankedLabels, k: int | None, options: _Options) -> _Values:
    return ndcg(ranked, k=k, nothing_relevant=options.nothing_relevant)


def _err(ranked: RankedLabels, k: int | None, options: _Options) -> _Values:
    if options.max_grade is None:
        raise SettingsError(
            "ERR needs the highest grade of the scale",
            where="max_grade",
            remedy="give it: 4 for MSLR-WEB, 2 for LETOR 4.0",
        )
    return err(ranked, k=k, max_grade=options.max_grade, nothing_relevant=options.nothing_relevant)


def _of_relevant(measure: Callable[..., _Values]) -> _Compute:
    """Adapt a measure that asks only whether a document is relevant."""

    def compute(ranked: RankedLabels, k: int | None, options: _Options) -> _Values:
        return measure(
            ranked,
            k=k,
            relevant_grade=options.relevant_grade,
            nothing_relevant=options.nothing_relevant,
        )

    return compute


def _precision(ranked: RankedLabels, k: int | None, options: _Options) -> _Values:
    if k is None:
        raise SettingsError("precision needs a cut-off", where="P", remedy="write P@5")
    return _of_relevant(precision)(ranked, k, options)


_MEASURES: Final[dict[str, _Compute]] = {
    "nDCG": _ndcg,
    "ERR": _err,
    "MAP": _of_relevant(average_precision),
    "MRR": _of_relevant(reciprocal_rank),
    "P": _precision,
}


def measure_names() -> tuple[str, ...]:
    """Return the names known, without cut-offs.

    Examples
    --------
    >>> measure_names()
    ('nDCG', 'ERR', 'MAP', 'MRR', 'P')
    """
    return tuple(_MEASURES)


def parse_measure(text: str) -> MeasureName:
    """Read the name of a measure; capital and small letters are the same.

    Examples
    --------
    >>> parse_measure("ndcg@10")
    MeasureName(name='nDCG', k=10)
    >>> parse_measure("bleu")
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: 'bleu': unknown measure; known: nDCG, ERR, MAP, MRR, P...
    """
    match = _PATTERN.fullmatch(text.strip())
    known = {name.lower(): name for name in _MEASURES}
    name = known.get(match[1].lower()) if match else None
    if match is None or name is None:
        raise SettingsError(
            "unknown measure",
            where=repr(text),
            remedy=f"known: {', '.join(_MEASURES)}, each with a cut-off as in nDCG@10",
        )
    if match[2] is None:
        return MeasureName(name, None)
    digits = match[2][:_MOST_DIGITS]
    return MeasureName(name, checked_cutoff(int(digits), name=f"{name}@{digits}"))


def evaluate(
    scores: ArrayLike,
    data: Labelled,
    measures: Iterable[str],
    *,
    nothing_relevant: NothingRelevant = "skip",
    relevant_grade: int = 1,
    max_grade: int | None = None,
    ties: Ties = "input",
    rng: np.random.Generator | None = None,
    grade_counts: NDArray[np.int64] | None = None,
) -> dict[str, _Values]:
    """Rank once, as deep as needed, and compute several measures of every query.

    Parameters
    ----------
    scores
        One score a row of ``data``.
    data
        Anything with ``labels`` and ``offsets``.
    measures
        Names such as ``"nDCG@10"`` and ``"MAP"``.
    nothing_relevant
        What a query without a relevant document gets: NaN (``"skip"``) or 0 (``"zero"``).
    relevant_grade
        The lowest grade that MAP, MRR and P count as relevant.
    max_grade
        The highest grade of the scale; ERR needs it.
    ties, rng, grade_counts
        As for `cloister.measure.ranked.rank_labels`.

    Returns
    -------
    dict
        One array for each name as it was written; `cloister.measure.mean.mean` averages it.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> data = SimpleNamespace(labels=np.array([2, 0, 1]), offsets=np.array([0, 3]))
    >>> evaluate([0.1, 0.9, 0.5], data, ["P@2", "MRR"])
    {'P@2': array([0.5]), 'MRR': array([0.5])}
    """
    names = list(measures)
    cutoffs = [parse_measure(name).k for name in names]
    deepest = None if None in cutoffs else max((k for k in cutoffs if k), default=None)
    ranked = rank_labels(
        scores,
        data.labels,
        data.offsets,
        depth=deepest,
        ties=ties,
        rng=rng,
        grade_counts=grade_counts,
    )
    return evaluate_ranked(
        ranked,
        names,
        nothing_relevant=nothing_relevant,
        relevant_grade=relevant_grade,
        max_grade=max_grade,
    )


def evaluate_ranked(
    ranked: RankedLabels,
    measures: Iterable[str],
    *,
    nothing_relevant: NothingRelevant = "skip",
    relevant_grade: int = 1,
    max_grade: int | None = None,
) -> dict[str, _Values]:
    """Compute several measures of a ranking that is there; parameters as for `evaluate`."""
    options = _Options(
        max_grade=max_grade, relevant_grade=relevant_grade, nothing_relevant=nothing_relevant
    )
    parsed = {text: parse_measure(text) for text in measures}
    return {text: _MEASURES[name](ranked, k, options) for text, (name, k) in parsed.items()}
