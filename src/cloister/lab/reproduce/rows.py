"""One row a claim: what the paper says, what came out here, the difference, the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from cloister.lab.reproduce.claim import Claim, Estimate, Verdict
from cloister.lab.reproduce.evidence import Evidence
from cloister.lab.reproduce.figure import Figure, Part
from cloister.lab.reproduce.study import Study
from cloister.lab.simulation.grid import expand

__all__ = ["counted", "rows_of"]

Row = dict[str, Any]


def rows_of(figure: Figure, evidence: Evidence) -> list[Row]:
    """Hold every claim of a figure against its runs.

    The keys of a row: ``figure``; ``statement``, the paper's in our words (ours, where ``beyond``
    is true); ``data`` and ``paper_data``; ``compared``, what was measured; ``paper``, the number
    that the paper prints for it, or in a word what it says (nothing where ``beyond`` is true);
    ``ours`` with its interval ``low`` to ``high`` over ``n`` repetitions; ``means`` of what was
    compared; ``difference`` of ours from the paper's number; ``verdict`` and the ``rule`` for it;
    ``setting`` and ``paper_setting``; ``note``.
    """
    settings = {part.name: _setting(part) for part in figure.parts}
    return [_row(figure, claim, evidence, settings) for claim in figure.claims]


def counted(rows: Iterable[Row]) -> dict[str, int]:
    """Return how many rows have each verdict.

    Examples
    --------
    >>> counted([{"verdict": "agrees"}, {"verdict": "agrees"}, {"verdict": "differs"}])
    {'agrees': 2, 'differs': 1, 'undecided': 0, 'skipped': 0}
    """
    counts = Counter(row["verdict"] for row in rows)
    return {name: counts[name] for name in ("agrees", "differs", "undecided", "skipped")}


def _row(figure: Figure, claim: Claim, evidence: Evidence, settings: dict[str, str]) -> Row:
    parts = [figure.part(name) for name in claim.parts]
    estimate, verdict = _judged(claim, parts, evidence)
    word = None if claim.beyond else claim.expects.word
    paper = word if claim.paper is None else claim.paper
    differs = None
    if estimate.value is not None and claim.paper is not None:
        differs = estimate.value - claim.paper
    return {
        "figure": figure.key,
        "statement": claim.statement,
        "beyond": claim.beyond,
        "data": _joined(part.name for part in parts),
        "paper_data": _joined(part.paper_collection or part.collection.name for part in parts),
        "compared": claim.compared,
        "paper": paper,
        "ours": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "means": estimate.means,
        "difference": differs,
        "verdict": verdict,
        "rule": claim.expects.rule,
        "setting": "; ".join(dict.fromkeys(settings[part.name] for part in parts)),
        "paper_setting": figure.paper_setting,
        "note": estimate.note,
    }


def _judged(
    claim: Claim, parts: Sequence[Part | Study], evidence: Evidence
) -> tuple[Estimate, Verdict]:
    for part in parts:
        if not part.collection.is_here:
            note = f"{part.collection.name} is not here: {part.collection.address}"
            return Estimate(None, note=note), "skipped"
    estimate = claim.estimate(evidence)
    return estimate, claim.expects.verdict(estimate)


def _joined(names: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(names))


def _setting(part: Part | Study) -> str:
    """Say how large a part's runs are."""
    if isinstance(part, Study):
        repeats = {(job.settings.data, job.settings.fold, job.settings.seed) for job in part.jobs}
        return f"{part.setting}, {len(repeats)} repetitions"
    runs = expand(part.experiment)
    return (
        f"{_range(run.clients for run in runs)} clients x "
        f"{_range(run.queries_per_round for run in runs)} queries x "
        f"{_range(run.rounds for run in runs)} rounds, "
        f"{len({(run.data, run.fold, run.seed) for run in runs})} repetitions"
    )


def _range(values: Iterable[int]) -> str:
    """Write numbers from the least to the most.

    Examples
    --------
    >>> _range([1000, 10, 100]), _range([4, 4])
    ('10 to 1,000', '4')
    """
    found = sorted(set(values))
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"
