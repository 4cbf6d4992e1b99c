"""Where private neural ranking is done again: four collections, folds and seeds."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from cloister.lab.neural.collection import COLLECTIONS, RankingCollectionName
from cloister.lab.neural.folds import N_FOLDS
from cloister.lab.neural.trial_settings import NeuralTrialSettings
from cloister.lab.neural.vectors import vectors_file
from cloister.lab.reproduce.collection import Collection, Collections
from cloister.lab.reproduce.figure import Size
from cloister.lab.reproduce.neural.paper_tables import PAPER_COLLECTIONS
from cloister.lab.reproduce.study import Study, StudyJob
from cloister.rank.embedding import EmbeddingSettings

__all__ = ["NOTE", "PAPER_SETTING", "RankingGround", "grounds", "studies"]

FUNCTION: Final = "cloister.lab.neural.trial:measure"
PAPER_SETTING: Final = (
    "Robust04 (0.5 million documents, 250 queries) and ClueWeb09-Cat-B (50 million, 150 queries); "
    "training, folds and number of candidates are not on the slides"
)
NOTE: Final = (
    "Collections are other ones: relations are compared, not numbers. Intervals are over test "
    "queries. All kernel models have last layers fitted the same way."
)


class RankingGround(NamedTuple):
    """A collection.

    Parameters
    ----------
    name, title
        By which it is opened, and what it is called.
    n_folds
        1 where it has a split of its own.
    rounds
        About how long a trial takes, beside others.
    given
        Settings of its own.
    """

    name: RankingCollectionName
    title: str
    n_folds: int
    rounds: int
    given: dict[str, Any]


_FILTERS: Final = NeuralTrialSettings.model_fields["convolutions"].default
_DRMM: Final = NeuralTrialSettings.model_fields["drmm"].default
_GROUNDS: Final = (  # chosen by validation queries, for MS MARCO 5k of all five folds
    RankingGround(
        "nfcorpus",
        "NFCorpus",
        1,
        100,
        {
            "n_validation": 150,
            "convolutions": _FILTERS.model_copy(update={"pairs_per_query": 5}),
        },
    ),
    RankingGround("mediqa", "MEDIQA", 1, 40, {"n_positions": 8}),
    RankingGround(
        "wikiqa", "WikiQA", 1, 30, {"drmm": _DRMM.model_copy(update={"learning_rate": 1e-3})}
    ),
    RankingGround(
        "msmarco-5k",
        "MS MARCO 5k",
        N_FOLDS,
        20,
        {"convolutions": _FILTERS.model_copy(update={"pairs_per_query": 50})},
    ),
)


def grounds() -> tuple[RankingGround, ...]:
    """Return the four collections."""
    return _GROUNDS


def studies(size: Size, data: Collections) -> tuple[Study, ...]:
    """Return one study a collection; every table reads the same trials."""
    return tuple(_study(ground, size, data) for ground in _GROUNDS)


def _study(ground: RankingGround, size: Size, data: Collections) -> Study:
    collection = Collection(ground.title, str((data.root / COLLECTIONS[ground.name]).resolve()))
    jobs = tuple(
        StudyJob(FUNCTION, _settings(ground, size, collection, fold, seed), ground.rounds)
        for fold in range(1, ground.n_folds + 1)
        for seed in range(1, size.of(quick=1, full=3) + 1)
    )
    split = "five folds" if ground.n_folds > 1 else "its own split"
    told = f"{split}, up to {_n_training(size):,} training queries"
    return Study(ground.title, collection, jobs, told, " and ".join(PAPER_COLLECTIONS))


def _n_training(size: Size) -> int:
    return size.of(quick=150, full=1000)


def _settings(
    ground: RankingGround, size: Size, collection: Collection, fold: int, seed: int
) -> NeuralTrialSettings:
    file = vectors_file()
    small: dict[str, Any] = {}
    if size.is_quick:
        few: dict[str, Any] = {"n_epochs": 2, "pairs_per_query": 5, "max_document_terms": 100}
        small = {
            "n_validation": 60,
            "n_test": 150,
            "n_filters": 32,
            "convolutions": _FILTERS.model_copy(update=few),
            "drmm": _DRMM.model_copy(update=few),
            "own_vectors": EmbeddingSettings(size=50, epochs=3),
        }
    return NeuralTrialSettings(
        data=collection.address,
        name=ground.name,
        fold=fold,
        seed=seed,
        vectors="" if file is None else str(file),
        n_training=_n_training(size),
        **(ground.given | small),
    )
