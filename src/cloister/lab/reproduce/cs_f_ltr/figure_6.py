"""Figure 6: what noise costs, and what more parties bring."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cloister.lab.reproduce.claim import Above, Below, Claim, Estimate, Expectation
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import versus
from cloister.lab.reproduce.cs_f_ltr.federation_trial import (
    NO_NOISE,
    FewerPartiesSettings,
    SharedNoiseSettings,
    claimed,
    parties_name,
)
from cloister.lab.reproduce.cs_f_ltr.setting import (
    MEASURES,
    PAPER_COLLECTION,
    PAPER_SETTING,
    Ground,
    grounds,
    query_numbers,
    seeds,
    silo_study,
)
from cloister.lab.reproduce.evidence import Evidence, paired
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.study import Study, StudyJob
from cloister.lab.silos.settings import SilosSettings

__all__ = ["EPSILONS", "figure_6"]

MODULE: Final = "cloister.lab.reproduce.cs_f_ltr.federation_trial"
EPSILONS: Final = (8.0, 4.0, 2.0, 1.0)
FEWER_EPSILONS: Final = (8.0, 4.0, 1.0)
N_PARTIES: Final = 5
CONTROLLED: Final = 0.02  # of nDCG@10: a loss that can be borne
NDCG: Final = MEASURES["nDCG@10"]


def figure_6(size: Size, data: Collections) -> Figure:
    """Return the figure."""
    everywhere = grounds(data)
    small = [one for one in everywhere if one.name in ("nfcorpus", "msmarco-5k")]
    first = small[:1]
    parts: list[Study] = []
    claims: list[Claim] = []
    for ground in size.of(quick=first, full=list(everywhere)):
        exact = silo_study(ground, size, epsilon=None)
        epsilons = size.of(quick=FEWER_EPSILONS, full=EPSILONS)
        noisy = {epsilon: silo_study(ground, size, epsilon=epsilon) for epsilon in epsilons}
        parts += [exact, *noisy.values()]
        claims += _noise_claims(exact.name, {eps: part.name for eps, part in noisy.items()})
    for ground in size.of(quick=first, full=small):
        parts.append(_shared_noise(ground, size))
        claims += _shared_claims(parts[-1].name)
    for ground in small:
        parts.append(_parties(ground, size))
        claims += _party_claims(parts[-1].name)
    return Figure(
        "figure-6",
        "What noise costs, and what more parties bring",
        f"epsilon from none to 2, claimed; 1 to 5 parties. {PAPER_SETTING}",
        tuple(parts),
        tuple(claims),
        "Epsilons 8 to 1 are true, for one token, of a party's whole release. Claimed ones are "
        "the paper's: one Laplace variable for all counters of an answer, whose true epsilon is "
        "infinite. Federations of fewer parties are tested on the queries of all five.",
        measures=(),
    )


def _shared_noise(ground: Ground, size: Size) -> Study:
    jobs = tuple(
        StudyJob(
            f"{MODULE}:measure_shared_noise",
            SharedNoiseSettings(
                data=ground.collection.address,
                seed=seed,
                silos=_silos(ground, seed, size, counts="exact"),
            ),
            rounds=10,
        )
        for seed in seeds(size)
    )
    name = f"{ground.collection.name}, paper's noise"
    told = "4 parties, sketches of 30 x 200 a document"
    return Study(name, ground.collection, jobs, told, PAPER_COLLECTION)


def _parties(ground: Ground, size: Size) -> Study:
    jobs = tuple(
        StudyJob(
            f"{MODULE}:measure_parties",
            FewerPartiesSettings(
                data=ground.collection.address,
                seed=seed,
                silos=_silos(
                    ground,
                    seed,
                    size,
                    counts="exact",
                    n_parties=N_PARTIES,
                    local_statistics="pooled",
                ),
            ),
            rounds=10,
        )
        for seed in seeds(size)
    )
    name = f"{ground.collection.name}, 1 to {N_PARTIES} parties"
    return Study(name, ground.collection, jobs, "exact counts", PAPER_COLLECTION)


def _silos(ground: Ground, seed: int, size: Size, **settings: Any) -> SilosSettings:
    return SilosSettings(
        collection=ground.name,
        data=ground.collection.address,
        seed=seed,
        augmented_weight=1.0,
        **query_numbers(size),
        **settings,
    )


def _noise_claims(exact: str, noisy: dict[float, str]) -> Iterator[Claim]:
    largest, least = max(noisy), min(noisy)
    yield _between(
        "a little noise is even better than none", noisy[largest], exact, Above(), beyond=False
    )
    yield _between(
        "more noise is worse than little", noisy[least], noisy[largest], Below(), beyond=False
    )
    for epsilon, part in noisy.items():
        yield _between(
            f"what noise costs can be borne: at most {CONTROLLED}",
            part,
            exact,
            Above(-CONTROLLED),
            beyond=False,
        )
        yield versus(
            f"CS-F-LTR above Local at a true epsilon of {epsilon:g}",
            part=part,
            system="CS-F-LTR",
            baseline="Local",
            quantity=NDCG,
            beyond=True,
        )


def _between(statement: str, one: str, other: str, expects: Expectation, *, beyond: bool) -> Claim:
    """Return a claim that compares CS-F-LTR in two parts of the same repetitions."""

    def estimate(evidence: Evidence) -> Estimate:
        samples = [evidence.sample(part, "CS-F-LTR", NDCG) for part in (one, other)]
        return paired(samples[0], samples[1], (one, other))

    compared = f"CS-F-LTR, {one} less {other}: {NDCG.label}"
    return Claim(statement, compared, (one, other), expects, estimate, beyond=beyond)


def _shared_claims(part: str) -> Iterator[Claim]:
    yield versus(
        "even less noise than the paper's is better than none",
        part=part,
        system=claimed(2.0),
        baseline=NO_NOISE,
        quantity=NDCG,
        beyond=True,
    )
    yield versus(
        "a little noise is even better than none",
        part=part,
        system=claimed(0.5),
        baseline=NO_NOISE,
        quantity=NDCG,
    )
    yield versus(
        "more noise is worse than little",
        part=part,
        system=claimed(0.1),
        baseline=claimed(0.5),
        quantity=NDCG,
        expects=Below(),
    )
    yield versus(
        f"what noise costs can be borne: at most {CONTROLLED}",
        part=part,
        system=claimed(0.5),
        baseline=NO_NOISE,
        quantity=NDCG,
        expects=Above(-CONTROLLED),
    )


def _party_claims(part: str) -> Iterator[Claim]:
    for name, quantity in MEASURES.items():
        yield versus(
            f"{name} grows with the number of parties",
            part=part,
            system=parties_name(N_PARTIES),
            baseline=parties_name(1),
            quantity=quantity,
        )
    for n in range(2, N_PARTIES + 1):
        yield versus(
            "nDCG@10 grows with every further party",
            part=part,
            system=parties_name(n),
            baseline=parties_name(n - 1),
            quantity=NDCG,
        )
    yield versus(
        "ERR falls at first",
        part=part,
        system=parties_name(2),
        baseline=parties_name(1),
        quantity=MEASURES["ERR"],
        expects=Below(),
    )
