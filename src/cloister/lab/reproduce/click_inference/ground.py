"""What the trials of all figures have in common: collections, repetitions, and what is read off.

The report uses MQ2007 and MSLR-WEB10K. Here are MQ2008, five folds whose validation parts are
attacked, and a sample of MSLR-WEB10K with 43 training and 43 test queries, the latter attacked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from cloister.lab.reproduce.click_inference.setting import ClickInferenceSettings
from cloister.lab.reproduce.collection import Collection, Collections
from cloister.lab.reproduce.figure import Size
from cloister.lab.reproduce.quantity import Quantity
from cloister.lab.reproduce.study import Study, StudyJob

__all__ = [
    "ACCURACY",
    "ADVANTAGE",
    "AUC",
    "CLICKS",
    "INDIVIDUAL",
    "PRECISION",
    "RECALL",
    "Ground",
    "features_world",
    "grounds",
]

CLICKS: Final = ("perfect", "navigational", "informational")
FUNCTION: Final = "cloister.lab.reproduce.click_inference.trial:measure"

ACCURACY: Final = Quantity("accuracy", lambda run: run.at_end("accuracy"))
PRECISION: Final = Quantity("precision", lambda run: run.at_end("precision"))
RECALL: Final = Quantity("recall", lambda run: run.at_end("recall"))
AUC: Final = Quantity("AUC", lambda run: run.at_end("auc"))
ADVANTAGE: Final = Quantity(
    "AUC less that of the best guess", lambda run: run.at_end("advantage_auc")
)
INDIVIDUAL: Final = Quantity(
    "AUC less that of the best guess, on the client less on others with the same page",
    lambda run: run.at_end("advantage_individual_auc"),
)


class Ground(NamedTuple):
    """A collection, how its ranker is trained, and its repetitions.

    Parameters
    ----------
    collection
        What is attacked.
    base
        Settings of all trials on it.
    repeats
        Folds and seeds.
    paper
        What the report uses in its place.
    """

    collection: Collection
    base: dict[str, Any]
    repeats: tuple[tuple[int, int], ...]
    paper: str

    def study(
        self, what: str = "", *, clicks: Iterable[str] = CLICKS, work: int = 1, **settings: Any
    ) -> Study:
        """Return the trials of one setting, under some click models.

        Parameters
        ----------
        what
            Tells the study from others on the same collection.
        clicks
            Click models of those attacked.
        work
            About how long a trial takes, beside others.
        settings
            Of all its trials.
        """
        jobs = tuple(
            StudyJob(
                FUNCTION,
                ClickInferenceSettings(
                    **(self.base | settings | {"fold": fold, "seed": seed, "click_model": click})
                ),
                work,
            )
            for click in clicks
            for fold, seed in self.repeats
        )
        name = self.collection.name
        return Study(
            f"{name}, {what}" if what else name,
            self.collection,
            jobs,
            _told(jobs[0].settings),
            self.paper,
        )


def grounds(size: Size, data: Collections, *, costly: bool = False) -> tuple[Ground, Ground]:
    """Return MQ2008 and the MSLR sample, trained as in the report's table 2.

    What is costly is repeated half as often.
    """
    mq2008, mslr = data["MQ2008"], data["MSLR sample"]
    n_seeds = size.of(quick=1, full=2 if costly else 4)
    folds, seeds = range(1, 6), range(1, n_seeds + 1)
    return (
        Ground(
            mq2008,
            {"data": mq2008.address, "train_queries": 4, "train_rounds": 200},
            tuple((fold, seed) for fold in folds for seed in seeds),
            "MQ2007",
        ),
        Ground(
            mslr,
            {"data": mslr.address, "train_queries": 2, "train_rounds": 100},
            tuple((1, seed) for seed in range(1, 5 * n_seeds + 1)),
            "MSLR-WEB10K",
        ),
    )


def features_world(size: Size) -> Ground:
    """Return a world with so many queries that few clients of a sum share one."""
    address = "world:features?queries=2000&documents=40&features=46"
    return Ground(
        Collection("features world", address),
        {"data": address, "train_queries": 4, "train_rounds": 50},
        tuple((1, seed) for seed in range(1, size.of(quick=3, full=5) + 1)),
        "",
    )


def _told(settings: Any) -> str:
    """Say what a study's trials are."""
    seen = {
        "none": "each update seen",
        "paper": "each update seen under the paper's noise",
        "sum": f"sums of {settings.clients:,} clients seen",
        "sum+noise": f"noised sums of {settings.clients:,} of {settings.population:,} clients seen",
    }[settings.protection]
    return (
        f"{settings.ranker} ranker of {settings.train_clients:,} clients x "
        f"{settings.train_queries} queries x {settings.train_rounds} rounds, {seen}, "
        f"{settings.queries_per_update} queries an update"
    )
