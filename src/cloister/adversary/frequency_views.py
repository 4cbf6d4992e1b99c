"""What an adversary sees of each row of a kernel scene, stage by stage, as columns for trees.

Each view has all before it:

- ``vector``: the stored values of the one (word, document), and their sums;
- ``length``: how many of the document's words have a vector;
- ``document``: the mean values of all words of the closures that have the document;
- ``closure``: the values less the means of the closure's words in this document, and less the means
  of the same word in all documents; how many of each there are;
- ``label``: how often the same word occurs in the documents that the adversary knows.

The last needs no values at all: labels can be linked, whatever is stored under them.
"""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.frequency_readers import (
    SUM_OF_KERNELS,
    AnchoredColumns,
    kernel_at_09,
    kernel_sum,
)
from cloister.adversary.kernel_scene import KernelDesign, KernelScene
from cloister.rank.kernel_pooling import N_SOFT

__all__ = ["VIEWS", "FrequencyView", "closed_form", "estimated_lengths", "view_columns"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FrequencyView = Literal["vector", "length", "document", "closure", "label"]
VIEWS: Final[tuple[FrequencyView, ...]] = get_args(FrequencyView)


def view_columns(scene: KernelScene, design: KernelDesign, view: FrequencyView) -> AnchoredColumns:
    """Return what is seen of each row, with the best estimate in closed form as anchor.

    Levels have no such estimate, nor have masked values without a length: their anchors are 0.
    """
    stored, stage = scene.stored(design), VIEWS.index(view)
    vectors = np.asarray(stored, np.float64)
    vectors = np.column_stack([vectors, _sums(vectors)])
    columns = [vectors]
    if stage >= VIEWS.index("length"):
        columns.append(_with_length(stored, scene.lengths))
    if stage >= VIEWS.index("document"):
        columns += _group_means(vectors, scene.documents)
        columns.append(_with_length(stored, estimated_lengths(stored, scene.documents)))
    if stage >= VIEWS.index("closure"):
        pairs = scene.closures * (int(scene.documents.max()) + 1) + scene.documents
        for groups in (pairs, scene.words):
            means, n_rows = _group_means(vectors, groups)
            columns += [vectors - means, n_rows]
    if stage >= VIEWS.index("label"):
        columns.append(_label_rates(scene))
    return AnchoredColumns(np.concatenate(columns, axis=1), _anchors(scene, design, stored, stage))


def estimated_lengths(stored: NDArray[Any], documents: Integers) -> Floats:
    """Return each row's document's length, as the document's median word tells it.

    Most words of the closures that have a document do not occur in it, so that the sum of their
    masked plain values is 1.253 times the length. Words without a vector are left out: theirs are
    all 0.

    Examples
    --------
    >>> values = np.full((3, 10), SUM_OF_KERNELS / 10) * np.array([[40], [40], [38]])
    >>> estimated_lengths(values, np.array([7, 7, 7])).round(6).tolist()
    [40.0, 40.0, 40.0]
    """
    sums = np.asarray(stored, np.float64)[:, :N_SOFT].sum(axis=1) / SUM_OF_KERNELS
    which = np.unique(documents, return_inverse=True)[1].reshape(-1)
    order = np.argsort(which, kind="stable")
    lengths = np.zeros(int(which.max()) + 1)
    for rows in np.split(order, np.flatnonzero(np.diff(which[order])) + 1):
        counted = sums[rows][sums[rows] > 0]
        lengths[which[rows[0]]] = np.median(counted) if len(counted) else 0.0
    return lengths[which]


def closed_form(stored: NDArray[Any], lengths: NDArray[Any], masked: bool) -> Floats:
    """Estimate frequencies from plain values and lengths, without anything learnt.

    Unmasked values give two estimates. The one from the kernel at 0.9 is never too low: the lower
    of the two counts.
    """
    by_sum = kernel_sum(stored, lengths, masked=masked)
    return by_sum if masked else np.minimum(by_sum, kernel_at_09(stored))


def _anchors(
    scene: KernelScene, design: KernelDesign, stored: NDArray[Any], stage: int
) -> Integers:
    if design.base is not None or (design.masked and stage < VIEWS.index("length")):
        return np.zeros(scene.n_rows, np.int64)
    if stage < VIEWS.index("length"):
        return kernel_at_09(stored)
    return np.rint(closed_form(stored, scene.lengths, design.masked)).astype(np.int64)


def _sums(vectors: Floats) -> Floats:
    """Return the sum of each ten kernels: those with words, and those with pairs."""
    return np.asarray(vectors.reshape(len(vectors), -1, N_SOFT).sum(axis=2))


def _with_length(stored: NDArray[Any], lengths: NDArray[Any]) -> Floats:
    """Return lengths, and what each ten kernels leave of them."""
    left = lengths[:, None] - _sums(np.asarray(stored, np.float64)) / SUM_OF_KERNELS
    return np.column_stack([lengths, left])


def _group_means(vectors: Floats, groups: Integers) -> tuple[Floats, Floats]:
    """Return the mean vector of each row's group, and, as a column, how many rows it has."""
    which = np.unique(groups, return_inverse=True)[1].reshape(-1)
    n_rows = np.bincount(which).astype(np.float64)
    sums = np.stack([np.bincount(which, column) for column in vectors.T], axis=1)
    return (sums / n_rows[:, None])[which], n_rows[which, None]


def _label_rates(scene: KernelScene) -> Floats:
    """Return how often a row's word occurs in other known documents, on average.

    One document more, of what all words have on average, stands for doubt.
    """
    counts = scene.frequencies.astype(np.float64)
    n_known = np.bincount(scene.words, scene.known)[scene.words] - scene.known
    columns = [n_known]
    for values in (counts > 0, counts):
        told = np.where(scene.known, values, 0.0)
        others = np.bincount(scene.words, told)[scene.words] - told
        columns.append((others + values[scene.known].mean()) / (n_known + 1.0))
    return np.column_stack(columns)
