"""What ``cloister attack sketch`` attacks, and how it tells what came out."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

    from cloister.adversary.guesses import Guesses
    from cloister.index.term_counts import TermCounts
    from cloister.sketch.keyed_hash import HashKey, SketchShape

__all__ = ["DELTA", "EPSILONS", "VOCABULARY", "SketchScene", "Subject", "attack_row"]

Result = dict[str, Any]

DELTA: Final = 1e-6
EPSILONS: Final = (1.0, 2.0, 4.0, 8.0)
VOCABULARY: Final = 100_000


class Subject(StrEnum):
    """What is attacked."""

    SHARED_NOISE = "shared-noise"
    AVERAGING = "averaging"
    TERMS = "terms"
    RELEASE = "release"
    SELECTION = "selection"
    DOCUMENT = "document"
    BUDGET = "budget"


class SketchScene:
    """What is attacked: a Zipf corpus of long documents, at the paper's 30 rows of 200 columns."""

    def __init__(self, n_trials: int, n_documents: int, burst_share: float, seed: int) -> None:
        self.n_trials = n_trials
        self.n_documents = n_documents
        self.burst_share = burst_share
        self.seed = seed

    @cached_property
    def counts(self) -> TermCounts:
        """The collection."""
        from cloister.lab.silos.zipf_corpus import ZipfCorpusSettings, make_corpus

        settings = ZipfCorpusSettings(
            documents=self.n_documents,
            vocabulary=5_000,
            burst_share=self.burst_share,
            seed=self.seed,
        )
        return make_corpus(settings).counts

    @cached_property
    def key(self) -> HashKey:
        """The hash key."""
        from cloister.sketch.keyed_hash import HashKey

        return HashKey(self.rng("key").bytes(32))

    @cached_property
    def shape(self) -> SketchShape:
        """Rows and columns."""
        from cloister.sketch.keyed_hash import SketchShape

        return SketchShape(n_rows=30, n_columns=200)

    def rng(self, *purpose: str | int) -> np.random.Generator:
        """Return the random stream of a purpose."""
        from cloister.core.random import stream

        return stream(self.seed, "attack sketch", *purpose)


def attack_row(
    subject: Subject,
    attack: str,
    protection: str,
    found: Guesses,
    epsilon: float | None,
    predicted: float | None = None,
) -> Result:
    """Describe guesses, with what epsilon allows them; None where nothing is claimed.

    What the noise predicts of the best guess is the sharper test: half the noise, or an attack
    that does not work, would pass for allowed. None where no formula tells.
    """
    from cloister.adversary.guesses import advantage_bound

    allowed = None if epsilon is None else 0.5 + advantage_bound(epsilon, DELTA) / 2
    return {
        "subject": subject.value,
        "attack": attack,
        "protection": protection,
        **found._asdict(),
        "advantage": found.advantage[0],
        "epsilon": epsilon,
        "allowed": allowed,
        "within": None if allowed is None else found.low <= allowed,
        "predicted": predicted,
        "as_predicted": None if predicted is None else found.agrees_with(predicted),
    }
