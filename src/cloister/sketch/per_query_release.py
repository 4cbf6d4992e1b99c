"""How an owner may answer a term-frequency query: noise, and what it costs.

What one token can change. A token of term t adds its sign to one cell in each row of its document's
sketch, and to nothing else. So among *distinct* cells at most one in each row changes, by 1: the
counters of n_rows rows move by n_rows in sum (L1) and by sqrt(n_rows) in length (L2), whatever the
number of terms that were asked for. Only if a cell that several terms share were noised afresh for
each of them would it count more than once: the owner noises each distinct cell once and repeats
it. Counters of other documents do not change: an answer about all documents costs as much as an
answer about one. The owner cannot tell decoys from true rows; decoys cost as much as the rest.

What is asked again. Cells that were noised once may be sent as often as anybody likes: what is
computed from a release, without looking at the data again, costs nothing (post-processing). It is
sound only while the noise is kept: an owner that lost it must pay again.
"""

from __future__ import annotations

import math
import threading
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import DataError, SettingsError
from cloister.core.settings import Settings
from cloister.privacy.calibration import planned_noise
from cloister.privacy.level import Level
from cloister.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, NoiseSource
from cloister.privacy.release import Release, UnprotectedRelease
from cloister.privacy.releases.gaussian import ROUNDING_SIGMA
from cloister.sketch.medians import column_medians

__all__ = [
    "Asked",
    "IndependentNoise",
    "NoiseOnce",
    "OwnerMedian",
    "ReleasePolicy",
    "UnsafeExactCounters",
]

Integers = NDArray[np.int64]

NOT_DRAWN: Final = np.iinfo(np.int64).min


class Asked(NamedTuple):
    """What a query reads, exactly; it must not leave.

    Parameters
    ----------
    places
        Terms x rows: flat places of the cells in a sketch.
    documents
        Numbers of the documents.
    counters
        Terms x rows x documents.
    signs
        Terms x rows, where the querier told them.
    """

    places: Integers
    documents: Integers
    counters: Integers
    signs: NDArray[np.int8] | None = None


class ReleasePolicy(Protocol):
    """What an owner does to counters before they leave, and what it records."""

    @property
    def opened(self) -> bool:
        """Whether the querier must tell which rows count, and its signs."""

    def opening(self, n_rows: int, *, n_values: int, simulated: bool) -> Release | None:
        """Return what is paid in advance, for all answers from so many cells together."""

    def record(self, asked: Asked, *, simulated: bool) -> Release | None:
        """Return what one answer costs; None if that was paid in advance."""

    def noised(self, asked: Asked, source: NoiseSource) -> NDArray[Any]:
        """Return what may leave, once the ledger has the record."""


class UnsafeExactCounters(Settings):
    """Counters as they are: whoever gets them knows them. For tests and comparisons."""

    opened: ClassVar[bool] = False

    def opening(self, n_rows: int, *, n_values: int, simulated: bool) -> None:
        """Nothing is paid for in advance."""

    def record(self, asked: Asked, *, simulated: bool) -> Release:
        """Return an unprotected release, which every limit refuses."""
        note = "exact counters of Count Sketches"
        return UnprotectedRelease(
            level=Level.TOKEN, n_values=asked.counters.size, simulated=simulated, note=note
        )

    def noised(self, asked: Asked, source: NoiseSource) -> NDArray[Any]:
        """Return the counters."""
        return asked.counters


class IndependentNoise(Settings):
    """Independent discrete noise on every distinct counter of an answer: each answer costs.

    It hides one token of one document from whoever sees the answers, whatever else they know, for
    ever, at the epsilon that the ledger composes over all answers. It does not hide a whole
    document beyond what group privacy says, nor what was asked.

    Parameters
    ----------
    noise
        ``laplace`` for pure epsilon, ``gaussian`` where many answers are composed.
    width
        Scale of the Laplace, or sigma of the normal noise, in counts.

    Examples
    --------
    >>> one = IndependentNoise.calibrated(0.5, n_rows=30, noise="laplace")
    >>> one.width  # z / epsilon: thirty counters move
    60.0
    >>> many = IndependentNoise.calibrated(8.0, delta=1e-6, n_rows=30, n_answers=100)
    >>> round(many.width)
    38
    """

    noise: Literal["laplace", "gaussian"] = "gaussian"
    width: float = Field(gt=0)

    opened: ClassVar[bool] = False

    @classmethod
    def calibrated(
        cls,
        epsilon: float,
        *,
        n_rows: int,
        delta: float = 1e-6,
        n_answers: int = 1,
        noise: Literal["laplace", "gaussian"] = "gaussian",
    ) -> Self:
        """Return the noise with which so many answers fit a limit of that epsilon and delta.

        Laplace noise is calibrated by the plain sum, which needs no delta; normal noise by the
        filter of the limit, which also covers questions that are chosen by earlier answers.
        """
        if noise == "laplace":
            return cls(noise=noise, width=n_rows * n_answers / epsilon)
        over_sensitivity = planned_noise(epsilon, delta, n_rounds=n_answers).multiplier
        # The accounting takes discrete noise for continuous noise of two steps' less width.
        return cls(noise=noise, width=math.hypot(over_sensitivity * n_rows**0.5, ROUNDING_SIGMA))

    def mechanism(self, n_rows: int) -> DiscreteGaussian | DiscreteLaplace:
        """Return the mechanism for distinct cells in so many rows."""
        if self.noise == "laplace":
            return DiscreteLaplace(
                level=Level.TOKEN, neighbours="add-remove", scale=self.width, sensitivity=n_rows
            )
        return DiscreteGaussian(
            level=Level.TOKEN,
            neighbours="add-remove",
            sigma=self.width,
            sensitivity=math.sqrt(n_rows),
        )

    def opening(self, n_rows: int, *, n_values: int, simulated: bool) -> None:
        """Nothing is paid for in advance."""

    def record(self, asked: Asked, *, simulated: bool) -> Release:
        """Return the cost of one answer."""
        mechanism = self.mechanism(asked.counters.shape[1])
        return mechanism.release(asked.counters.size, simulated=simulated)

    def noised(self, asked: Asked, source: NoiseSource) -> NDArray[Any]:
        """Noise each distinct cell once, and repeat it where several terms share it."""
        n_terms, n_rows, n_documents = asked.counters.shape
        _, first, again = np.unique(asked.places, return_index=True, return_inverse=True)
        cells = asked.counters.reshape(n_terms * n_rows, n_documents)[first]
        noised = self.mechanism(n_rows).protect(cells, source).values
        return noised[again.ravel()].reshape(asked.counters.shape)


class NoiseOnce:
    """Each cell of each document gets its noise once, when it is first asked for, and keeps it.

    All answers together are then a part of one release: every cell of every sketch, each with
    independent noise, of which one token moves sqrt(n_rows) in length. That the noise is drawn
    late changes nothing, since it depends on nothing. So the first answer pays for all, and any
    number of queries follows at no cost, to any recipients together. What it hides is what the
    one-shot release hides, without shipping it: one token of one document, at the epsilon of the
    one record.

    The noise lives in this object. Another object, as after a restart, is another release and is
    recorded anew; so is that of changed documents. Threads may share it. Its memory is at most 8
    bytes for each cell of each document: 4 times that of the sketches.

    Parameters
    ----------
    noise
        How wide.
    """

    opened: ClassVar[bool] = False

    def __init__(self, noise: IndependentNoise) -> None:
        self.noise = noise
        self._noise: dict[int, Integers] = {}  # by place: the noise of each document's cell
        self._taken = False
        self._lock = threading.Lock()  # without it two threads would draw noise of one cell twice

    def opening(self, n_rows: int, *, n_values: int, simulated: bool) -> Release:
        """Return the cost of all answers of one owner; a second owner is refused.

        Noise that two collections shared would cancel in differences.
        """
        with self._lock:
            if self._taken:
                raise SettingsError(
                    "serves one owner only", where="NoiseOnce", remedy="make another"
                )
            self._taken = True
        release = self.noise.mechanism(n_rows).release(n_values, simulated=simulated)
        note = "every cell is noised once: this pays for all answers"
        return release.model_copy(update={"note": note})

    def record(self, asked: Asked, *, simulated: bool) -> None:
        """Nothing: it was paid in advance."""

    def noised(self, asked: Asked, source: NoiseSource) -> NDArray[Any]:
        """Draw noise for the cells that were never asked for, and use the same for the others."""
        places, where = np.unique(asked.places, return_inverse=True)
        with self._lock:
            noise = self._drawn(places, asked, source)
        noised: Integers = asked.counters + noise[where.ravel()].reshape(asked.counters.shape)
        return noised

    def _drawn(self, places: Integers, asked: Asked, source: NoiseSource) -> Integers:
        """Return the noise of cells: places x documents."""
        largest = int(asked.documents.max()) + 1
        rows = [self._row(place, largest) for place in places.tolist()]
        noise = np.array([row[asked.documents] for row in rows])
        new = noise == NOT_DRAWN
        if new.any():
            zeros = np.zeros(np.count_nonzero(new), np.int64)
            mechanism = self.noise.mechanism(asked.counters.shape[1])
            noise[new] = mechanism.protect(zeros, source).values
            for row, values in zip(rows, noise, strict=True):
                row[asked.documents] = values
        return noise

    def _row(self, place: int, n_documents: int) -> Integers:
        """Return the noise of one cell of all documents, with room for so many."""
        before = self._noise.get(place, np.empty(0, np.int64))
        if len(before) < n_documents:
            more = np.full(n_documents - len(before), NOT_DRAWN)
            self._noise[place] = np.concatenate([before, more])
        return self._noise[place]


class OwnerMedian(Settings):
    """The owner takes the median and adds noise to that one number: where theorem 1 holds.

    One token moves each row's sum of signed counters by at most s, hence the median by at most s:
    1 for one term, and for several as many as share a cell, which the query shows. The noise is
    n_rows times narrower than on all counters, at the same epsilon. In return the querier tells
    which rows count and its signs; an owner with the hash key then knows the terms, which decoys
    hide little (:mod:`cloister.adversary.term_identification`).

    Parameters
    ----------
    epsilon
        Pure epsilon of each answer, which may speak of all documents: one token is in one.

    Examples
    --------
    >>> OwnerMedian(epsilon=0.5).scale(sensitivity=2)  # of the doubled median
    4.0
    """

    epsilon: float = Field(gt=0)

    opened: ClassVar[bool] = True

    def scale(self, sensitivity: int) -> float:
        """Return the scale of the noise on doubled medians."""
        return sensitivity / self.epsilon

    def opening(self, n_rows: int, *, n_values: int, simulated: bool) -> None:
        """Nothing is paid for in advance."""

    def record(self, asked: Asked, *, simulated: bool) -> Release:
        """Return the cost of one answer."""
        return self._mechanism(asked).release(len(asked.documents), simulated=simulated)

    def noised(self, asked: Asked, source: NoiseSource) -> NDArray[Any]:
        """Return twice the median of each document, with noise: 1 x 1 x documents."""
        signs = _told(asked)
        sums = np.einsum("tr,trd->rd", signs.astype(np.int64), asked.counters)[signs[0] != 0]
        doubled = np.rint(2 * column_medians(sums.astype(np.float64))).astype(np.int64)
        return self._mechanism(asked).protect(doubled[None, None], source).values

    def mechanism(self, sensitivity: int) -> DiscreteLaplace:
        """Return the mechanism for doubled medians that one token moves so far: 2 for one term."""
        return DiscreteLaplace(
            level=Level.TOKEN,
            neighbours="add-remove",
            scale=self.scale(sensitivity),
            sensitivity=sensitivity,
        )

    def _mechanism(self, asked: Asked) -> DiscreteLaplace:
        return self.mechanism(2 * median_sensitivity(asked.places, _told(asked)))


def median_sensitivity(places: Integers, signs: NDArray[np.int8]) -> int:
    """Return how far one token can move a median over rows of sums over terms.

    It depends on the query alone. In each row the token lies in one cell; terms that share this
    cell add up with their signs.

    Examples
    --------
    >>> median_sensitivity(np.array([[0, 4], [0, 5]]), np.array([[1, 1], [1, -1]], np.int8))
    2
    """
    cells, where = np.unique(places, return_inverse=True)
    totals = np.zeros(len(cells), np.int64)
    np.add.at(totals, where.ravel(), signs.ravel().astype(np.int64))
    return max(1, int(np.abs(totals).max()))


def _told(asked: Asked) -> NDArray[np.int8]:
    if asked.signs is None:
        raise DataError("a median needs the signs of the rows that count", where="query")
    return asked.signs
