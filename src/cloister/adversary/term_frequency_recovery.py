"""Term-frequency recovery: how often a word occurs in a document, from its soft kernel values.

The adversary is the server, or who reads its storage, with the words' kernel vectors open (under
the split protocol: those of words that were queried). It knows the design, and some of the
collection's documents with their true frequencies, from which it learns. It does not know which
words the labels stand for. What it sees of the other documents comes in stages
(:mod:`cloister.adversary.frequency_views`), from the one vector to all that is stored.

**The bound.** Where values are levels, many rows have the same vector, and no rule on the vector
alone can be right more often than one that knows the commonest frequency of each vector. On the
attacked rows that is the ceiling (`cloister.cloud.kernel_obfuscation.bayes_success`), which nobody
can pass; learnt on known documents it is the honest Bayes guess
(`cloister.cloud.kernel_obfuscation.TermFrequencyGuess`). The true optimum lies between, up to
chance. Plain values are nearly all different: their ceiling is 1 and says nothing.

The bound is one for the view ``vector``. Further views may pass it;
`TermFrequencyRecovery.above_bayes` tells by how much. Not all of that comes from the values: a
closure's size, a document's length and linked labels tell of frequencies, too. So the same attack
runs on rows whose values are all alike (`cloister.adversary.kernel_scene.NO_VALUES`); what a design
adds to that is what its values leak.

An attack that fails shows that this attacker failed. Not tried: an adversary who knows which words
the labels stand for and fits whole documents to all levels at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.adversary.click_inference import Guess
from cloister.adversary.frequency_bounds import FrequencyBounds, frequency_bounds
from cloister.adversary.frequency_readers import (
    AnchoredColumns,
    FrequencyForestSettings,
    FrequencyPosterior,
    estimated_posterior,
    fit_forest,
    frequency_table,
    kernel_at_09,
)
from cloister.adversary.frequency_views import (
    VIEWS,
    FrequencyView,
    closed_form,
    estimated_lengths,
    view_columns,
)
from cloister.adversary.inferred_clicks import CONFIDENCE, Measured, success
from cloister.adversary.kernel_scene import NO_VALUES, KernelDesign, KernelScene
from cloister.cloud.kernel_obfuscation import TermFrequencyGuess
from cloister.core.errors import DataError
from cloister.core.settings import Settings

__all__ = [
    "DESIGNS",
    "FrequencyReader",
    "RecoverySettings",
    "TermFrequencyRecovery",
    "recover_term_frequencies",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

FrequencyReader = Literal["kernel-0.9", "kernel-sum", "table", "forest"]
DESIGNS: Final = (
    NO_VALUES,  # what the other things in view tell
    KernelDesign(False, None),  # the slides' without obfuscation
    KernelDesign(False, 5),
    KernelDesign(False, 10),  # the slides'
    KernelDesign(True, None),
    KernelDesign(True, 5),
    KernelDesign(True, 10),  # ours
)


class RecoverySettings(Settings):
    """Which designs are attacked, with what in view.

    Parameters
    ----------
    designs
        Pairs of masking and base.
    views
        What the trees see.
    forest
        How the trees learn.
    seed
        Of the rows that they learn from.
    """

    designs: tuple[KernelDesign, ...] = Field(default=DESIGNS, min_length=1)
    views: tuple[FrequencyView, ...] = Field(default=VIEWS, min_length=1)
    forest: FrequencyForestSettings = FrequencyForestSettings()
    seed: int = Field(default=0, ge=0)


class TermFrequencyRecovery(NamedTuple):
    """How well one attack did on the documents that the adversary does not know.

    Parameters
    ----------
    design, view, reader
        What is stored, what is seen of it, and how it is read.
    exact
        Share of rows whose frequency was guessed right.
    exact_occurring
        The same among rows whose word occurs.
    exact_told
        The same by one who is told that it occurs, as queried codes may tell.
    absolute_error
        Mean, of the guess that keeps it small.
    auc
        The chance that a word that occurs looks likelier to than one that does not.
    balanced_accuracy
        Mean of the shares of right answers to "does it occur" among words that do and do not.
    above_bayes
        ``exact`` less that of the honest Bayes guess from the vector alone on the same rows, or of
        the prior where that is right more often: the optimum is never below the prior.
    bounds
        Of the design.

    Intervals are at 95 % over documents.
    """

    design: KernelDesign
    view: FrequencyView
    reader: FrequencyReader
    exact: Measured
    exact_occurring: Measured
    exact_told: Measured
    absolute_error: Measured
    auc: Measured
    balanced_accuracy: float
    above_bayes: Measured
    bounds: FrequencyBounds


class _Sides(NamedTuple):
    """A scene under one design, cut into what is known and what is attacked."""

    scene: KernelScene
    design: KernelDesign
    stored: NDArray[Any]
    settings: RecoverySettings

    @property
    def known(self) -> Flags:
        return self.scene.known

    @property
    def truth(self) -> Integers:
        return self.scene.frequencies[~self.known]


def recover_term_frequencies(
    scene: KernelScene,
    settings: RecoverySettings | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> list[TermFrequencyRecovery]:
    """Attack each design with each reader that fits it.

    Plain values are read in closed form and by trees; levels by a table and by trees.

    Parameters
    ----------
    scene
        What the server holds, and the truth.
    settings
        Which designs and views.
    progress
        Told how many designs are done, of how many.

    Raises
    ------
    DataError
        If no word occurs among the known or the attacked rows.
    MissingDependency
        If LightGBM is not installed.
    """
    settings = settings or RecoverySettings()
    for side in (scene.known, ~scene.known):
        if not (scene.frequencies[side] > 0).any() or (scene.frequencies[side] > 0).all():
            raise DataError("words that occur and others are needed", where="KernelScene")
    found = []
    for n_done, design in enumerate(settings.designs):
        sides = _Sides(scene, design, scene.stored(design), settings)
        bounds, honest = frequency_bounds(scene, design), _honest_right(sides)
        for view, reader, posterior in _attacks(sides):
            found.append(_measured(sides, view, reader, posterior, bounds, honest))
        if progress is not None:
            progress(n_done + 1, len(settings.designs))
    return found


def _honest_right(sides: _Sides) -> Flags:
    """Say on which attacked rows the honest Bayes guess, or the prior if better, is right."""
    known, truth = sides.known, sides.truth
    guess = TermFrequencyGuess.learnt(sides.stored[known], sides.scene.frequencies[known])
    learnt, blind = guess.guess(sides.stored[~known]) == truth, guess.commonest == truth
    return np.asarray(max(learnt, blind, key=np.count_nonzero))


def _attacks(sides: _Sides) -> Iterator[tuple[FrequencyView, FrequencyReader, FrequencyPosterior]]:
    """Yield what each reader makes of the attacked rows."""
    scene, known, settings = sides.scene, sides.known, sides.settings
    rows, learnt = sides.stored[~known], scene.frequencies[known]
    most = int(learnt.max())
    if sides.design.base is None:
        yield "vector", "kernel-0.9", estimated_posterior(kernel_at_09(rows), most)
        for view, lengths in _lengths(sides):
            estimates = closed_form(rows, lengths[~known], sides.design.masked)
            yield view, "kernel-sum", estimated_posterior(estimates, most)
    else:
        yield "vector", "table", frequency_table(sides.stored[known], learnt, rows)
    for view in settings.views:
        columns, anchors = view_columns(scene, sides.design, view)
        if np.abs(anchors[known] - learnt).mean() > learnt.mean():
            anchors = np.zeros_like(anchors)  # a guess of 0 is nearer
        parts = [AnchoredColumns(columns[side], anchors[side]) for side in (known, ~known)]
        yield (
            view,
            "forest",
            fit_forest(parts[0], learnt, parts[1], settings.forest, seed=settings.seed),
        )


def _lengths(sides: _Sides) -> Iterator[tuple[FrequencyView, Floats]]:
    """Yield each row's length as it is known, and as the document's words tell it."""
    yield "length", sides.scene.lengths.astype(np.float64)
    yield "document", estimated_lengths(sides.stored, sides.scene.documents)


def _measured(
    sides: _Sides,
    view: FrequencyView,
    reader: FrequencyReader,
    posterior: FrequencyPosterior,
    bounds: FrequencyBounds,
    honest: Flags,
) -> TermFrequencyRecovery:
    truth, documents = sides.truth, sides.scene.documents[~sides.known]
    there = truth > 0
    right = posterior.likeliest == truth
    told = posterior.likeliest_occurring == truth
    share = float((sides.scene.frequencies[sides.known] > 0).mean())
    # Where both kinds weigh alike, the best answer is yes above the share of those that occur.
    yes = posterior.occurrence > share
    return TermFrequencyRecovery(
        sides.design,
        view,
        reader,
        exact=_mean(right, documents),
        exact_occurring=_mean(right[there], documents[there]),
        exact_told=_mean(told[there], documents[there]),
        absolute_error=_mean(np.abs(posterior.middle - truth), documents),
        auc=_auc(posterior.occurrence, there, documents),
        balanced_accuracy=float((yes[there].mean() + (~yes[~there]).mean()) / 2),
        above_bayes=_mean(right.astype(np.int64) - honest, documents),
        bounds=bounds,
    )


def _mean(values: NDArray[Any], documents: Integers) -> Measured:
    """Return the mean over rows, with Student's interval over documents."""
    from scipy.special import stdtrit

    mean = float(values.mean())
    which = np.unique(documents, return_inverse=True)[1].reshape(-1)
    parts = np.bincount(which, values - mean) / len(values)  # what each document adds to the mean
    n = len(parts)
    if n < 2:
        return Measured(mean, None, None, n)
    error = float(np.sqrt((parts**2).sum() * n / (n - 1)))
    reach = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2)) * error
    return Measured(mean, mean - reach, mean + reach, n)


def _auc(scores: Floats, there: Flags, documents: Integers) -> Measured:
    """Return the area under the curve over all rows, with its interval over documents."""
    which = np.unique(documents, return_inverse=True)[1].reshape(-1)
    order = np.argsort(which, kind="stable")
    n_rows = np.bincount(which)
    place = np.arange(len(which)) - np.repeat(np.cumsum(n_rows) - n_rows, n_rows)
    values = np.full((len(n_rows), 1, int(n_rows.max())), np.nan)
    truth = np.zeros(values.shape, np.bool_)
    values[which[order], 0, place], truth[which[order], 0, place] = scores[order], there[order]
    return success(Guess(values, truth), truth).auc
