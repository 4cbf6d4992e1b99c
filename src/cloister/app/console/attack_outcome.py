"""What came out of an experiment of the attack lab: figures side by side, and what they say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from cloister.app.console.attack_choices import LabChoice
from cloister.app.console.attack_lab import CURVE, FIGURES, Trial, TrialName, trials_of
from cloister.app.console.charts import Chart, Series

__all__ = ["LabOutcome", "TrialRow", "Verdict", "lab_outcome"]

NEXT_TO_NOTHING: Final = 0.01  # of nDCG@10: less is no harm worth a defence
LITTLE: Final = 0.1  # of what was lost: who gives back less does not help
MOST: Final = 0.9
_COLOURS: Final[dict[TrialName, str]] = {
    "honest": "series-1",
    "attacked": "series-2",
    "defended": "series-3",
    "insured": "series-6",
}
_NDCG: Final = "offline_ndcg@10"


class Suspended(NamedTuple):
    """Who is suspended at the end, and how that came about."""

    n_attackers: int
    n_honest: int
    clients: tuple[str, ...]
    first_round: int | None


class TrialRow(NamedTuple):
    """A training with its figures; none of them while it is under way."""

    title: str
    name: TrialName
    ndcg: float | None
    max_rr: float | None
    seconds: float | None
    unused_attackers: float | None
    unused_honest: float | None
    n_refused: int | None
    suspended: Suspended | None
    on_first_page: float | None


class Verdict(NamedTuple):
    """What the figures say, and whether that is good news."""

    text: str
    kind: str  # "good", "warn" or "bad", as in the style sheet


class LabOutcome(NamedTuple):
    """All of an experiment, as far as it is done.

    Parameters
    ----------
    choice
        What was chosen.
    rows
        The trainings.
    chart
        Their learning curves.
    lost, recovered, cost
        nDCG@10 that the attack takes without a defence; the share of that which the defence gives
        back (None where next to nothing was lost); what the defence takes where all are honest.
    verdicts
        All that is known by now, in words.
    """

    choice: LabChoice
    rows: tuple[TrialRow, ...]
    chart: Chart
    lost: float | None
    recovered: float | None
    cost: float | None
    verdicts: tuple[Verdict, ...]


def lab_outcome(choice: LabChoice, found: Mapping[str, Any]) -> LabOutcome:
    """Return what is known of an experiment from what its job has found so far."""
    trials = trials_of(choice)
    rows = tuple(_row(choice, trial, found.get(f"{FIGURES}{trial.name}")) for trial in trials)
    ndcg = {row.name: row.ndcg for row in rows if row.ndcg is not None}
    lost = _difference(ndcg, "honest", "attacked")
    gained = _difference(ndcg, "defended", "attacked")
    cost = _difference(ndcg, "honest", "insured")
    harmed = lost is not None and lost > NEXT_TO_NOTHING
    recovered = gained / lost if harmed and gained is not None and lost else None
    verdicts = [
        *_of_attack(choice, lost),
        *_of_defence(choice, gained, recovered),
        *_of_cost(choice, cost, lost),
        *_of_promotion(choice, {row.name: row.on_first_page for row in rows}),
    ]
    return LabOutcome(choice, rows, _chart(trials, found), lost, recovered, cost, tuple(verdicts))


def _difference(values: Mapping[TrialName, float], of: TrialName, less: TrialName) -> float | None:
    return values[of] - values[less] if of in values and less in values else None


def _row(choice: LabChoice, trial: Trial, figures: Mapping[str, Any] | None) -> TrialRow:
    known = figures or {}
    refused = known.get("refused")
    attacked = trial.settings.attackers > 0
    return TrialRow(
        title=trial.title,
        name=trial.name,
        ndcg=known.get(_NDCG),
        max_rr=known.get("offline_max_rr"),
        seconds=known.get("seconds"),
        unused_attackers=known.get("unused_attackers") if attacked else None,
        unused_honest=known.get("unused_honest"),
        n_refused=None if refused is None else sum(refused.values()),
        suspended=_suspended(trial, known),
        on_first_page=known.get("target_on_first_page"),
    )


def _suspended(trial: Trial, figures: Mapping[str, Any]) -> Suspended | None:
    if "suspended" not in figures:
        return None
    attackers = {f"client-{number}" for number in trial.settings.attacking_clients}
    clients = tuple(figures["suspended"])
    n_attackers = len(attackers.intersection(clients))
    first = figures["first_suspension"]
    return Suspended(
        n_attackers, len(clients) - n_attackers, clients, None if first is None else first + 1
    )


def _chart(trials: tuple[Trial, ...], found: Mapping[str, Any]) -> Chart:
    curves = {trial: found.get(f"{CURVE}{trial.name}", []) for trial in trials}
    return Chart(
        "lab-curves",
        "nDCG@10 on held-out queries while clients train",
        "round",
        "nDCG@10",
        [
            Series(
                trial.title,
                [n for n, _ in points],
                [value for _, value in points],
                colour=_COLOURS[trial.name],
                dash="dot" if trial.name == "insured" else "solid",
            )
            for trial, points in curves.items()
        ],
    )


def _of_attack(choice: LabChoice, lost: float | None) -> list[Verdict]:
    if lost is None:
        return []
    if lost <= NEXT_TO_NOTHING:
        return [
            Verdict(
                f"Without a defence this attack does next to no harm here (nDCG@10 "
                f"{_signed(-lost)}): there is nothing to recover.",
                "good",
            )
        ]
    who = f"{choice.n_attackers} of {choice.clients} clients"
    return [Verdict(f"Without a defence, {who} take {lost:.3f} of nDCG@10 away.", "bad")]


def _of_defence(choice: LabChoice, gained: float | None, recovered: float | None) -> list[Verdict]:
    if gained is None:
        return []
    if gained < -NEXT_TO_NOTHING:
        told = f"{choice.rule} makes it worse than no defence: nDCG@10 {_signed(gained)}."
        return [Verdict(told, "bad")]
    if recovered is None:
        return []
    share = f"it gives back {_per_cent(recovered)} of the loss."
    if recovered < LITTLE:
        return [Verdict(f"{choice.rule} does not help: {share}", "bad")]
    if recovered < MOST:
        return [Verdict(f"{choice.rule} helps in part: {share}", "warn")]
    return [Verdict(f"{choice.rule} holds: {share}", "good")]


def _of_cost(choice: LabChoice, cost: float | None, lost: float | None) -> list[Verdict]:
    if cost is None:
        return []
    honest = f"Where all are honest, {choice.rule} costs"
    if cost <= NEXT_TO_NOTHING:
        return [Verdict(f"{honest} next to nothing (nDCG@10 {_signed(-cost)}).", "good")]
    if lost is not None and cost > lost:
        more = "more than the attack takes without it"
        return [Verdict(f"{honest} {cost:.3f} of nDCG@10: {more}.", "bad")]
    return [Verdict(f"{honest} {cost:.3f} of nDCG@10.", "warn")]


def _of_promotion(choice: LabChoice, seen: Mapping[TrialName, float | None]) -> list[Verdict]:
    """Say how often the target is on the first page, which is what promotion is about."""
    words: dict[TrialName, str] = {
        "honest": "when nobody attacks",
        "attacked": "without a defence",
        "defended": f"with {choice.rule}",
    }
    shares = {name: seen[name] for name in words if name in seen}
    told = [
        f"{_per_cent(share)} {words[name]}" for name, share in shares.items() if share is not None
    ]
    if len(told) < 2:
        return []
    return [Verdict(f"Of the queries, the target is on the first page of {', '.join(told)}.", "")]


def _signed(change: float) -> str:
    """Write a change to three digits, without a minus before zero.

    Examples
    --------
    >>> _signed(-0.0001), _signed(-0.25)
    ('+0.000', '-0.250')
    """
    return f"{round(change, 3) + 0.0:+.3f}"


def _per_cent(share: float) -> str:
    return f"{100 * share:.0f} %"
