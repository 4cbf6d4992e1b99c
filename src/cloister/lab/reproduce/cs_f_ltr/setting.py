"""Where CS-F-LTR is done again: collections as parties, systems, and what decides a repetition."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

from cloister.lab.reproduce.collection import Collection, Collections
from cloister.lab.reproduce.figure import Size
from cloister.lab.reproduce.quantity import Quantity, figure
from cloister.lab.reproduce.study import Study, StudyJob, StudySettings
from cloister.lab.silos.settings import CollectionName, SilosSettings

__all__ = [
    "EPSILON",
    "MEASURES",
    "OWN_MEASURES",
    "PAPER_COLLECTION",
    "PAPER_SETTING",
    "PARTIES",
    "RANKERS",
    "SYSTEMS",
    "Ground",
    "SilosStudySettings",
    "grounds",
    "query_numbers",
    "repeats",
    "seeds",
    "silo_study",
    "system_name",
]

RankerName = Literal["pointwise", "pairwise", "forest"]
RANKERS: Final[tuple[RankerName, ...]] = ("pointwise", "pairwise", "forest")

# As `measure_silos` calls them, and as the paper does.
SYSTEMS: Final = {
    "local": "Local",
    "local-plus": "Local+",
    "global": "Global",
    "cs-f-ltr": "CS-F-LTR",
    "local-pooled": "Local, pooled statistics",
    "cs-f-ltr-tuned": "CS-F-LTR, tuned",
    "mixture": "mixture",
}
PARTIES: Final = ("party-a", "party-b", "party-c", "party-d")
EPSILON: Final = 4.0  # of one token, true, where nothing else is said; the paper claims 0.5
PAPER_COLLECTION: Final = "MS MARCO, 4 x 36,400 documents"
PAPER_SETTING: Final = (
    "4 parties with 200 queries and 36,400 documents each; alpha 5, beta 0.1, w 200, z 30, K 150, "
    "epsilon 0.5 claimed; one run"
)
FUNCTION: Final = "cloister.lab.reproduce.cs_f_ltr.silo_trial:measure"

ERR, NDCG_10, NDCG = figure("err", "ERR"), figure("ndcg@10", "nDCG@10"), figure("ndcg", "nDCG")
MEASURES: Final[dict[str, Quantity]] = {"ERR": ERR, "nDCG@10": NDCG_10, "nDCG": NDCG}
OWN_MEASURES: Final[dict[str, Quantity]] = {
    name: figure(f"own_{quantity.label.lower()}", f"{name} on own queries")
    for name, quantity in MEASURES.items()
}


class Ground(NamedTuple):
    """A collection whose documents and queries are shared out among parties."""

    name: CollectionName
    collection: Collection


class SilosStudySettings(StudySettings):
    """One repetition of learning to rank across silos.

    Parameters
    ----------
    data, seed
        The same as in ``silos``.
    silos
        Parties, counts, epsilon, sizes; its ranker is not used.
    rankers
        Which rankers are trained, on the same rows.
    """

    silos: SilosSettings
    rankers: tuple[RankerName, ...] = RANKERS


def grounds(data: Collections) -> tuple[Ground, ...]:
    """Return the collections: three that must be there, and a world that always is."""
    return (
        Ground("medquad", data["MedQuAD"]),
        Ground("nfcorpus", data["NFCorpus"]),
        Ground("msmarco-5k", data["MS MARCO 5k"]),
        Ground("clinic", Collection("clinic world", "world:clinic")),
    )


def seeds(size: Size) -> range:
    """Return the seeds of repetitions."""
    return range(1, size.of(quick=5, full=10) + 1)


def system_name(ranker: str, run: str) -> str:
    """Return what a run of a ranker is called; the paper's ranker needs no name.

    Examples
    --------
    >>> system_name("pointwise", "local-plus"), system_name("forest", "cs-f-ltr")
    ('Local+', 'forest CS-F-LTR')
    """
    return SYSTEMS[run] if ranker == "pointwise" else f"{ranker} {SYSTEMS[run]}"


def query_numbers(size: Size) -> dict[str, Any]:
    """Return how many queries of a party are for training, validation and test, at most."""
    return {
        "n_training": size.of(quick=60, full=200),
        "n_validation": size.of(quick=30, full=60),
        "n_test": 57,
    }


def repeats(
    ground: Ground, size: Size, rankers: tuple[RankerName, ...] = RANKERS[:1], **settings: Any
) -> tuple[StudyJob, ...]:
    """Return one job a seed."""
    return tuple(
        StudyJob(
            FUNCTION,
            SilosStudySettings(
                data=ground.collection.address,
                seed=seed,
                rankers=rankers,
                silos=SilosSettings(
                    collection=ground.name,
                    data=ground.collection.address,
                    seed=seed,
                    **query_numbers(size),
                    **settings,
                ),
            ),
            rounds=10,
        )
        for seed in seeds(size)
    )


def silo_study(
    ground: Ground,
    size: Size,
    *,
    epsilon: float | None,
    rankers: tuple[RankerName, ...] = RANKERS[:1],
) -> Study:
    """Return the repetitions on one collection, with exact counts or with releases."""
    counts: dict[str, Any] = {"counts": "exact"}
    if epsilon is not None:
        counts = {"counts": "release", "epsilon": epsilon}
    return Study(
        f"{ground.collection.name}, {epsilon_text(epsilon)}",
        ground.collection,
        repeats(ground, size, rankers, **counts),
        f"4 parties, up to {query_numbers(size)['n_training']} training queries each",
        PAPER_COLLECTION,
    )


def epsilon_text(epsilon: float | None) -> str:
    """Say what counts of other parties' documents are.

    Examples
    --------
    >>> epsilon_text(None), epsilon_text(4.0)
    ('exact counts', 'epsilon 4')
    """
    return "exact counts" if epsilon is None else f"epsilon {epsilon:g}"
