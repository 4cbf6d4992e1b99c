"""Beyond the thesis: attackers who want one kind of document to be shown, and what it costs."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, get_args

from cloister.adversary.poisoning import Target, exposure, highest_in_feature
from cloister.lab.reproduce.claim import Above, Claim, Near
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.foltr.setting import TWO_CLICKS, features_worlds, mq2008
from cloister.lab.reproduce.poisoning.contrast import Cell, difference
from cloister.lab.reproduce.poisoning.setting import (
    MOST,
    N_CLIENTS,
    honest,
    part_of,
    system,
)
from cloister.lab.reproduce.quantity import Outcome, Quantity
from cloister.lab.simulation.clients import make_clients
from cloister.lab.simulation.settings import RuleName, SimulationSettings
from cloister.rank.saving import load_ranker

__all__ = ["promotion"]

FEATURE: Final = 40  # the target: the document of each query that is highest in it
ATTACKS: Final = ("promote-clicks", "promote-model")
ATTACKERS: Final = (1, 3)
RULES: Final[tuple[str, ...]] = get_args(RuleName)
SHOWN: Final = 0.02  # of first pages: less is called no promotion


def promotion(size: Size, data: Collections) -> Figure:
    """Return how far attackers raise their target under every rule, beside nobody attacking."""
    rounds = size.of(quick=500, full=3_000)
    systems = [system("fedavg")]
    systems += [
        system(rule, attack, m, target_feature=FEATURE)
        for rule in RULES
        for attack in ATTACKS
        for m in ATTACKERS
        if m <= MOST.get(rule, N_CLIENTS)
    ]
    parts = tuple(
        part_of(ground, systems, rounds=rounds, clicks=TWO_CLICKS)
        for ground in (mq2008(data), features_worlds())
    )
    names = [str(variant["name"]) for variant in systems[1:]]
    claims = [
        claim
        for part in parts
        for click in TWO_CLICKS
        for name in names
        for claim in _claims(part.name, name, click)
    ]
    return Figure(
        "promotion",
        "Promotion of the documents that are highest in one feature",
        "left open",
        parts,
        tuple(claims),
        f"The target is the document of each query that is highest in feature {FEATURE}. On the "
        "first page: in what share of the test queries it is among the first ten.",
        measures=(),
    )


@lru_cache(maxsize=16)
def _target(data: str, fold: int, normalise: str) -> Target:
    settings = SimulationSettings(data=data, fold=fold, normalise=normalise, clients=1)  # type: ignore[arg-type]
    return highest_in_feature(make_clients(settings).test[0].data, FEATURE)


def _on_first_page(outcome: Outcome) -> float:
    """Return the target's share of first pages; read off the ranker where nobody attacked."""
    if "target_on_first_page" in outcome.run.summary:
        return outcome.at_end("target_on_first_page")
    settings = outcome.run.settings
    target = _target(settings.data, settings.fold, settings.normalise)
    ranker = load_ranker(outcome.run.path.with_suffix(".safetensors"))
    return exposure(ranker, target, seed=settings.seed).top_share


FIRST_PAGE: Final = Quantity("share of first pages with the target", _on_first_page)


def _claims(part: str, name: str, click: str) -> list[Claim]:
    cells = Cell(part, name, click), Cell(part, honest("fedavg"), click)
    return [
        difference(
            "the target is shown no more often than without attackers",
            *cells,
            quantity=FIRST_PAGE,
            expects=Near(SHOWN),
            beyond=True,
        ),
        difference(
            "what the promotion costs in nDCG@10",
            *cells,
            expects=Above(-0.01),
            beyond=True,
        ),
    ]
