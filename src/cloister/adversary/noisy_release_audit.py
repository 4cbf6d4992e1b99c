"""The audit of the one-shot noisy release: one token, and every noisy number before selection.

The adversary sees all four noisy tables whole, which is more than a release tells: lists and
imputation are computed from them. It knows the key and the document but for one token, and scores
by the likelihood ratio of all numbers that the token moves. No attack on a release does better.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.adversary.audit import Neighbour
from cloister.adversary.distinguishing import laplace_log_ratio, normal_log_ratio
from cloister.adversary.guesses import noisy_accuracy
from cloister.core.settings import Settings
from cloister.index.term_counts import TermCounts, count_terms
from cloister.privacy.mechanisms.aes_noise import SeededWords
from cloister.privacy.releases.noisy_tables import NoiseFamily, NoisyTablesRelease
from cloister.sketch.keyed_hash import HashKey
from cloister.sketch.release_noise import NoisyReleaseSettings, planned_release
from cloister.sketch.release_trials import NoisyTrials, noisy_trials

__all__ = ["NoisyReleaseAudit"]

Floats = NDArray[np.float64]


class NoisyReleaseAudit(Settings):
    """Whether the only document of a release is empty or has one token.

    Parameters
    ----------
    epsilon, delta
        What one release is set to cost.
    n_rows, family
        Rows of the documents' sketches, and the law of the noise on their cells.
    n_rounds
        Releases of the same collection, each with fresh noise and a cost of its own.

    Examples
    --------
    >>> from cloister.adversary.audit import AuditSettings, audit
    >>> audit(NoisyReleaseAudit(epsilon=2.0), AuditSettings(n_trials=10_000)).verdict
    "below the ledger's bound"
    """

    epsilon: float = Field(default=1.0, gt=0)
    delta: float = Field(default=1e-6, gt=0, lt=1)
    n_rows: int = Field(default=1, ge=1, le=100)
    family: NoiseFamily | Literal["narrowest"] = "narrowest"
    n_rounds: int = Field(default=1, ge=1)

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        return "noisy-release"

    @property
    def neighbours(self) -> str:
        """Which two inputs are told apart, and what the adversary sees."""
        return "a document with one token or none; all noisy cells, lengths and frequencies seen"

    @property
    def claimed_epsilon(self) -> None:
        """Nobody claims anything but the ledger."""
        return

    @cached_property
    def release_settings(self) -> NoisyReleaseSettings:
        """Return the settings of the releases: as narrow as it goes, which the noise ignores."""
        return NoisyReleaseSettings(
            n_rows=self.n_rows,
            family=self.family,
            n_columns=2,
            cell_size=1,
            epsilon=self.epsilon,
            delta=self.delta,
            statistics_columns=2,
        )

    @property
    def predicted_accuracy(self) -> float:
        """How often the best guess is right: one step in each number moved."""
        return noisy_accuracy(self.releases()[0].tables, self.n_rounds)

    def releases(self) -> Sequence[NoisyTablesRelease]:
        """Return what the ledger records: one release a round."""
        return [planned_release(self.release_settings, n_documents=1, simulated=True)] * (
            self.n_rounds
        )

    def scores(self, neighbour: Neighbour, n_trials: int, *, rng: np.random.Generator) -> Floats:
        """Return the log likelihood ratios of a token and none."""
        total = np.zeros(n_trials)
        for _ in range(self.n_rounds):
            words = SeededWords(int(rng.integers(2**63)))
            trials = noisy_trials(
                _document(neighbour),
                _KEY,
                self.release_settings,
                n_trials=n_trials,
                words=words,
            )
            total += self._log_ratio(trials)
        return total

    def _log_ratio(self, trials: NoisyTrials) -> Floats:
        settings = self.release_settings
        own = _KEY.hash_terms([TERM], settings.shape)
        shared = _KEY.hash_terms([TERM], settings.statistics_shape)
        rows = np.arange(settings.n_rows)
        statistics = np.arange(settings.statistics_rows)
        moved = {
            "cells": trials.cells[:, rows, own.columns[0], 0] * own.signs[0],
            "lengths": trials.lengths,
        }
        for name, table in (
            ("document frequencies", trials.document_frequencies),
            ("collection frequencies", trials.collection_frequencies),
        ):
            moved[name] = table[:, statistics, shared.columns[0]] * shared.signs[0]
        ratio = np.zeros(len(trials.cells))
        for noisy in trials.release.tables:
            normal = noisy.family == "discrete-gaussian"
            log_ratio = normal_log_ratio if normal else laplace_log_ratio
            ratio += log_ratio(moved[noisy.name], 1.0, noisy.width).sum(1)
        return ratio


TERM = "cough"
_KEY = HashKey(bytes(32))


def _document(n_tokens: int) -> TermCounts:
    """Return one document with the term so often."""
    return count_terms([TERM, " ".join([TERM] * n_tokens)]).select(np.array([1]))
