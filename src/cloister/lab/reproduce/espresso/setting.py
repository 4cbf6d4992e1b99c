"""Where ESPRESSO is done again: federations, access levels, and what decides a repetition."""

from __future__ import annotations

from typing import Final, NamedTuple

from cloister.lab.espresso.agreement import CUTOFFS, AgreementSettings
from cloister.lab.espresso.federation_contents import ACCESS, FOLDERS, FederationSettings
from cloister.lab.reproduce.claim import Above, Below, Expectation, Near
from cloister.lab.reproduce.collection import Collection, Collections
from cloister.lab.reproduce.espresso.judged_trial import JudgedSettings
from cloister.lab.reproduce.espresso.selector_trial import SelectorSettings
from cloister.lab.reproduce.espresso.vector_trial import VectorTrialSettings
from cloister.lab.reproduce.figure import Size
from cloister.lab.reproduce.quantity import Quantity, figure
from cloister.lab.reproduce.study import Study, StudyJob
from cloister.search.word_vectors import WordVectorSettings

__all__ = [
    "ACCESS",
    "KEYWORD",
    "MEASURES",
    "NO_DIFFERENCE",
    "PAPER_COLLECTION",
    "PAPER_SETTING",
    "SERVERS",
    "SPARSE_VECTORS",
    "USER_VECTORS",
    "Ground",
    "agreement_study",
    "clinic",
    "grounds",
    "judged_study",
    "order_of",
    "part_name",
    "selector_study",
    "small_clinic",
    "spread",
    "vector_study",
]

SERVERS: Final = (1, 2, 3, 4, 5)
KEYWORD: Final = (
    "BM25 global",
    "LM global",
    "BM25 user",
    "LM user",
    "BM25 global, printed IDF",
    "BM25 user, printed IDF",
)
SPARSE_VECTORS: Final = ("TF-IDF cosine", "TF-IDF Euclidean")
USER_VECTORS: Final = ("TF-IDF cosine, user", "TF-IDF Euclidean, user")
MEASURES: Final[dict[str, Quantity]] = {
    **{f"ndcg@{k}": figure(f"ndcg@{k}", f"nDCG@{k}") for k in CUTOFFS},
    **{f"p@{k}": figure(f"p@{k}", f"P@{k}") for k in CUTOFFS},
    "map": figure("map", "MAP"),
}
PAPER_COLLECTION: Final = "Synthea, 475,000 documents"
PAPER_SETTING: Final = (
    "50 servers x 9,500 pods with one document each, 30 queries from LDA with 50 topics, the best "
    "5 pods of each server; gold: the user's centralised BM25; one run"
)
EQUAL: Final = 0.005  # numbers of a table that are called equal
NO_DIFFERENCE: Final = 0.02  # what is called no difference here
FUNCTION: Final = "cloister.lab.espresso.agreement:measure"
VECTORS: Final = "cloister.lab.reproduce.espresso.vector_trial:measure"
JUDGED_TRIAL: Final = "cloister.lab.reproduce.espresso.judged_trial:measure"
SELECTORS: Final = "cloister.lab.reproduce.espresso.selector_trial:measure"


class Ground(NamedTuple):
    """Documents in pods on servers."""

    collection: Collection
    federation: FederationSettings
    told: str


def clinic(size: Size) -> Ground:
    """Return the clinic world: at the paper's size, or with a fiftieth of the pods."""
    return _clinic(size.of(quick=190, full=9_500))


def small_clinic() -> Ground:
    """Return a clinic world for what takes long."""
    return _clinic(40)


def _clinic(pods: int) -> Ground:
    federation = FederationSettings(source="clinic", servers=50, pods=pods)
    name = f"clinic world 50 x {pods:,}"
    address = f"world:clinic?servers=50&pods={pods}"
    return Ground(Collection(name, address), federation, f"50 servers x {pods:,} pods")


def grounds(size: Size, data: Collections) -> tuple[Ground, ...]:
    """Return the clinic world and, at full size, the collections that are spread over pods."""
    if size.is_quick:
        return (clinic(size),)
    return clinic(size), spread(data, "synthea"), spread(data, "nfcorpus"), spread(data, "medquad")


def spread(data: Collections, source: str) -> Ground:
    """Return a collection that is spread over the pods of 50 servers, one document a pod."""
    names = {"synthea": "Synthea", "nfcorpus": "NFCorpus", "medquad": "MedQuAD"}
    collection = Collection(names[source], str((data.root / FOLDERS[source]).resolve()))
    federation = FederationSettings.model_validate(
        {"source": source, "servers": 50, "data": collection.address}
    )
    return Ground(collection, federation, "50 servers, one document a pod")


def part_name(ground: Ground, access: int) -> str:
    """Return the name of a part.

    Examples
    --------
    >>> part_name(clinic(Size("quick")), 5)
    'clinic world 50 x 190, 5 % access'
    """
    return f"{ground.collection.name}, {access} % access"


def seeds(size: Size) -> range:
    """Return the seeds of query sets."""
    return range(1, size.of(quick=3, full=5) + 1)


def vector_seeds(size: Size) -> range:
    """Return the seeds of query sets for models of vectors, which take long."""
    return seeds(size)[:3]


def agreement_study(
    ground: Ground, size: Size, access: int, systems: tuple[str, ...], *, rounds: int = 10
) -> Study:
    """Return the repetitions of some systems at one access level: one a set of queries."""
    repetitions = seeds(size) if systems == KEYWORD else vector_seeds(size)
    jobs = tuple(
        StudyJob(
            FUNCTION,
            AgreementSettings(
                data=ground.collection.address,
                seed=seed,
                federation=ground.federation,
                access=access,
                systems=systems,
            ),
            rounds,
        )
        for seed in repetitions
    )
    return _study(ground, access, jobs)


def selector_study(ground: Ground, size: Size, access: int) -> Study:
    """Return the repetitions of the better selectors at one access level."""
    jobs = tuple(
        StudyJob(
            SELECTORS,
            SelectorSettings(
                data=ground.collection.address,
                seed=seed,
                federation=ground.federation,
                access=access,
            ),
            20,
        )
        for seed in seeds(size)
    )
    return _study(ground, access, jobs)


def vector_study(ground: Ground, size: Size, access: int, study: Study) -> Study:
    """Add the repetitions of word vectors to a study of the same part."""
    n = size.of(quick=200, full=2_000)
    base = WordVectorSettings(size=size.of(quick=100, full=300), epochs=10)  # as the paper lists
    jobs = tuple(
        StudyJob(
            VECTORS,
            VectorTrialSettings(
                data=ground.collection.address,
                seed=seed,
                federation=ground.federation,
                access=access,
                n_public=n,
                n_tuning=n,
                base=base,
            ),
            20,
        )
        for seed in vector_seeds(size)
    )
    return study._replace(
        jobs=(*study.jobs, *jobs),
        setting=f"{study.setting}, word vectors of {base.size} numbers tuned on {n:,} documents",
    )


def judged_study(ground: Ground, size: Size, access: int) -> Study:
    """Return the repetitions with people's judgements: one a sample of the queries."""
    jobs = tuple(
        StudyJob(
            JUDGED_TRIAL,
            JudgedSettings(
                data=ground.collection.address,
                seed=seed,
                federation=ground.federation,
                access=access,
                n_queries=size.of(quick=40, full=100),
            ),
            10,
        )
        for seed in seeds(size)
    )
    told = f"{ground.told}, the collection's own judged queries"
    return Study(part_name(ground, access), ground.collection, jobs, told)


def order_of(one: float, other: float) -> Expectation:
    """Return what two numbers of a table lead one to expect of their difference.

    Examples
    --------
    >>> order_of(0.5, 0.3).word, order_of(0.300, 0.301).word
    ('higher', 'no difference')
    """
    if abs(one - other) <= EQUAL:
        return Near(NO_DIFFERENCE)
    return Above() if one > other else Below()


def _study(ground: Ground, access: int, jobs: tuple[StudyJob, ...]) -> Study:
    told = f"{ground.told}, 30 LDA queries a repetition, best 5 pods of a server"
    return Study(part_name(ground, access), ground.collection, jobs, told, PAPER_COLLECTION)
