"""Beyond the paper: a mixture of local and federated rankers with which no party loses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from cloister.lab.reproduce.claim import Above, Claim, Estimate
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import versus
from cloister.lab.reproduce.cs_f_ltr.setting import (
    EPSILON,
    OWN_MEASURES,
    PARTIES,
    grounds,
    silo_study,
    system_name,
)
from cloister.lab.reproduce.evidence import Evidence
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.gap import share_of_gap
from cloister.lab.reproduce.quantity import figure
from cloister.lab.reproduce.study import Study
from cloister.measure.significance import Comparison, paired_t_test

__all__ = ["fairness", "fairness_claims", "losses_of_parties"]

LARGEST_LOSS: Final = 0.005  # of nDCG@10, in the mean over repetitions
SIGNIFICANT: Final = 0.05
NDCG: Final = OWN_MEASURES["nDCG@10"]


def fairness(size: Size, data: Collections) -> Figure:
    """Return what the mixture gives each party, on its own held-out queries."""
    parts = tuple(
        silo_study(ground, size, epsilon=epsilon)
        for ground in grounds(data)
        for epsilon in (None, EPSILON)
    )
    return Figure(
        "fairness",
        "A mixture of Local and CS-F-LTR for each party, beside Local",
        "party A loses .001 of nDCG@10 and .016 of ERR by federation, party C gains .111; how "
        "to address it is left open",
        parts,
        tuple(claim for part in parts for claim in fairness_claims(part, "pointwise")),
        "Each party chooses on queries of its own how much of the federated ranker to mix in. A "
        "p-value and a mean of the worst party are one number each: their interval is that "
        "number. The worst of four parties is below 0 by chance alone where nobody loses.",
        measures=(),
    )


def fairness_claims(part: Study, ranker: str) -> Iterator[Claim]:
    """Say that with the mixture nobody loses by more than chance and little, and most is kept."""
    mixture, local = system_name(ranker, "mixture"), system_name(ranker, "local")
    yield Claim(
        "with the mixture no party is significantly below Local",
        f"{mixture} less {local}: least p-value of a party that lost, times the parties",
        (part.name,),
        Above(SIGNIFICANT),
        lambda evidence: _least_p(losses_of_parties(evidence, part.name, mixture, local)),
        beyond=True,
    )
    yield Claim(
        f"with the mixture the mean loss of any party is at most {LARGEST_LOSS}",
        f"{mixture} less {local}, worst party: mean {NDCG.label}",
        (part.name,),
        Above(-LARGEST_LOSS),
        lambda evidence: _worst(losses_of_parties(evidence, part.name, mixture, local)),
        beyond=True,
    )
    yield versus(
        "the mixture is above Local on average",
        part=part.name,
        system=mixture,
        baseline=local,
        quantity=NDCG,
        beyond=True,
    )
    yield _kept(part, ranker)


def _kept(part: Study, ranker: str) -> Claim:
    names = tuple(system_name(ranker, run) for run in ("local", "mixture", "cs-f-ltr"))

    def estimate(evidence: Evidence) -> Estimate:
        floor, system, ceiling = (evidence.sample(part.name, name, NDCG) for name in names)
        return share_of_gap(
            floor, system, ceiling, names=(names[0], names[1], names[2]), purpose=part.name
        )

    return Claim(
        "the mixture keeps at least half of what CS-F-LTR gains on average",
        f"share of {names[2]} less {names[0]} that {names[1]} keeps: {NDCG.label}",
        (part.name,),
        Above(0.5),
        estimate,
        beyond=True,
    )


def losses_of_parties(
    evidence: Evidence, part: str, system: str, baseline: str
) -> dict[str, Comparison]:
    """Compare two systems at each party, corrected for the number of parties (Bonferroni)."""
    found = {}
    for party in PARTIES:
        quantity = figure(f"own_ndcg@10 {party}")
        one, other = (evidence.sample(part, name, quantity) for name in (system, baseline))
        both = sorted(one.keys() & other.keys())
        values = np.array([[one[repeat], other[repeat]] for repeat in both]).reshape(-1, 2)
        if len(values) >= 2:
            found[party] = paired_t_test(values[:, 0], values[:, 1], n_comparisons=len(PARTIES))
    return found


def _least_p(found: dict[str, Comparison]) -> Estimate:
    if not found:
        return Estimate(None, note="fewer than two repetitions")
    lost = {party: one.p_corrected for party, one in found.items() if one.mean_difference < 0}
    n = min(one.n for one in found.values())
    if not lost:
        return Estimate(1.0, 1.0, 1.0, n, note="no party lost")
    party = min(lost, key=lambda name: lost[name])
    return Estimate(lost[party], lost[party], lost[party], n, note=party)


def _worst(found: dict[str, Comparison]) -> Estimate:
    if not found:
        return Estimate(None, note="fewer than two repetitions")
    means = {party: one.mean_difference for party, one in found.items()}
    party = min(means, key=lambda name: means[name])
    n = found[party].n
    return Estimate(means[party], means[party], means[party], n, means, f"worst: {party}")
