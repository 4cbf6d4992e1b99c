"""Beyond the thesis: is the stored history worth keeping? At a tenth of the client steps or less.

Unlearning is held to 0.005 of retraining, where the poisoned ranker is at least 0.02 worse, and
stands beside short retraining of as many client steps that needs no history at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, Final

import numpy as np

from cloister.lab.forgetting.evaluation_settings import UnlearningSettings
from cloister.lab.reproduce.claim import Above, Below, Claim, Estimate, Near
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import alone, versus
from cloister.lab.reproduce.evidence import Evidence, Sample, paired
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.quantity import NDCG, figure
from cloister.lab.reproduce.unlearning.setting import PAPER_SETTING, Place, clicks, places

__all__ = ["worth"]

CLOSE: Final = 0.005  # of nDCG@10, to retraining
HARM: Final = 0.02  # of nDCG@10: poisoned at least so much worse
TENTH: Final = 0.1001  # of retraining's client steps; a tenth itself is meant to pass
INTERVAL: Final = 10
_Name = Callable[[UnlearningSettings, int, int], str]
SHARE: Final = figure("share_of_steps", "client steps as a share of retraining's")


def worth(size: Size, collections: Collections) -> Figure:
    """Return the comparison."""
    found = places(size, collections)
    return Figure(
        "unlearning-worth",
        "Unlearning beside short retraining at equal client steps",
        PAPER_SETTING,
        tuple(place.study for place in found),
        tuple(claim for place in found for claim in _of_place(place, clicks(size))),
        measures=(),
    )


def _of_place(place: Place, models: Sequence[str]) -> Iterator[Claim]:
    for click in models:
        yield from _claims(place, click)
    yield _all_together(place, models, UnlearningSettings.short, "short retraining")
    yield _all_together(
        place, models, UnlearningSettings.fewer_rounds, "short retraining in fewer, full rounds"
    )


def _claims(place: Place, click: str) -> Iterator[Claim]:
    like = place.like
    yield versus(
        "the malicious clients do harm worth undoing",
        part=place.name,
        system=like.without,
        baseline=like.poisoned,
        click=click,
        expects=Above(HARM),
        beyond=True,
    )
    for steps in like.local_steps:  # 2 to 8 % of retraining's client steps
        for system in (like.unlearned(steps, INTERVAL), like.short(steps, INTERVAL)):
            yield _close(place, system, click)
        yield versus(
            "the stored history is worth keeping",
            part=place.name,
            system=like.unlearned(steps, INTERVAL),
            baseline=like.short(steps, INTERVAL),
            click=click,
            beyond=True,
        )
    yield alone(
        "unlearning takes a tenth of the client steps or less",
        part=place.name,
        system=like.unlearned(max(like.local_steps), INTERVAL),
        quantity=SHARE,
        click=click,
        expects=Below(TENTH),
        beyond=True,
    )
    yield versus(
        "kept updates added up again, with no client step, end where retraining does",
        part=place.name,
        system=like.replay(INTERVAL),
        baseline=like.without,
        click=click,
        expects=Near(CLOSE),
        beyond=True,
    )


def _all_together(
    place: Place, models: Sequence[str], baseline: _Name, baseline_label: str
) -> Claim:
    """Return the claim on history over all click models, local steps and intervals at once."""
    like = place.like

    def sample(evidence: Evidence, name: _Name) -> Sample:
        found: dict[Any, list[float]] = {}
        for click, steps, interval in product(models, like.local_steps, like.intervals):
            system = name(like, steps, interval)
            for repeat, value in evidence.sample(place.name, system, NDCG, click).items():
                found.setdefault(repeat, []).append(value)
        whole = len(models) * len(like.local_steps) * len(like.intervals)
        return {
            key: float(np.mean(values)) for key, values in found.items() if len(values) == whole
        }

    def estimate(evidence: Evidence) -> Estimate:
        samples = [sample(evidence, name) for name in (UnlearningSettings.unlearned, baseline)]
        return paired(samples[0], samples[1], ("unlearning", baseline_label))

    return Claim(
        "the stored history is worth keeping",
        f"U({like.poisoned}) less {baseline_label}, mean over all click models, n' and delta-t: "
        f"{NDCG.label}",
        (place.name,),
        Above(),
        estimate,
        beyond=True,
    )


def _close(place: Place, system: str, click: str) -> Claim:
    """Return the claim that a system is close to retraining, where there was harm."""
    like = place.like

    def estimate(evidence: Evidence) -> Estimate:
        samples = {
            name: evidence.sample(place.name, name, NDCG, click)
            for name in (system, like.without, like.poisoned)
        }
        harm = paired(samples[like.without], samples[like.poisoned], (like.without, like.poisoned))
        if harm.value is not None and harm.value < HARM:
            return Estimate(None, n=harm.n, means=harm.means, note=f"harm below {HARM}")
        return paired(samples[system], samples[like.without], (system, like.without))

    return Claim(
        f"within {CLOSE} of retraining from scratch, where the harm was {HARM} or more",
        f"{system} less {like.without}: {NDCG.label}, {click}",
        (place.name,),
        Near(CLOSE),
        estimate,
        beyond=True,
    )
