"""The model's box: weights, trees on codes, and codes that belong to no word.

Its content is an array file (:mod:`cloister.store.array_layout`) of the kind ``private-model``. The
header has

- ``format`` (1), ``n_documents``, ``base`` of the obfuscation (null: plain values), ``bias``;
- ``spreads``: what each forest's score is divided by;
- ``forest_of_length``: by number of different terms of the query, from 0, which forest scores; the
  last serves longer queries. Empty without trees.

The arrays are ``weights`` (f8: 30 soft features word x word, word x pair, pair x word, and with
trees their signal), ``term_zeros`` and ``pair_zeros`` (i8: the code of 0 in each term and pair
column, for what no box holds), ``pair_turned`` (i4: the column to read where the query has a pair
the other way round), ``document_codes`` (i8, a row a document, by the secret numbers), and of each
forest f ``roots_f``, ``columns_f``, ``codes_f``, ``left_f``, ``right_f``, ``values_f`` (see
`cloister.cloud.private_trees.PrivateForest`) and ``sources_f``: where the codes of each of its
columns come from, as rows (kind, place, second place, column):

====  ============  ==========================================================================
kind  place(s)      column
====  ============  ==========================================================================
0     place, -1     of the codes in the box of the word at this place of the query
1     place, place  of the codes in the box of the pair of words at these places
2     -1, -1        of ``document_codes``
====  ============  ==========================================================================

The values of leaves, weights and shapes of trees are in the open to whoever opens this box, which
every query does. They tell of the judgements that the ranker was learnt from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.kernel_obfuscation import KernelObfuscation
from cloister.cloud.private_ranker import N_SOFT_FEATURES
from cloister.cloud.private_trees import PrivateForest
from cloister.core.errors import CloisterError, DataError
from cloister.store.array_file import from_bytes, to_bytes

__all__ = ["DOCUMENT_SOURCE", "PAIR_SOURCE", "TERM_SOURCE", "ModelBox", "SourcedForest"]

Codes = NDArray[np.int64]

TERM_SOURCE: Final = 0
PAIR_SOURCE: Final = 1
DOCUMENT_SOURCE: Final = 2
KIND: Final = "private-model"
FORMAT: Final = 1
MOST_PLACES: Final = 32  # as TreeFeatureSettings.n_positions
_OWN_ARRAYS: Final = ("weights", "term_zeros", "pair_zeros", "pair_turned", "document_codes")
_TREE_ARRAYS: Final = ("roots", "columns", "codes", "left", "right", "values")
_HEADER: Final = {"format", "n_documents", "base", "bias", "spreads", "forest_of_length"}


class SourcedForest(NamedTuple):
    """Trees on codes, and where the codes of a row come from.

    Parameters
    ----------
    forest
        The trees.
    sources
        int32 [column of the forest, 4]: kind, place, second place, column there.
    spread
        What the score is divided by.
    """

    forest: PrivateForest
    sources: NDArray[np.int32]
    spread: float


@dataclass(frozen=True, eq=False)
class ModelBox:
    """What the server needs for every query.

    Parameters
    ----------
    weights, bias
        Of the last layer.
    base
        Of the obfuscation; None where kernel values are plain.
    n_documents
        Of the collection.
    forests
        Empty without trees.
    forest_of_length
        Which forest serves a query of 0, 1, 2 ... different terms; the last serves longer ones.
    term_zeros, pair_zeros
        The code of 0 in each column of words' and of pairs' boxes.
    pair_turned
        Which column stands for each where the query has a pair the other way round.
    document_codes
        [document, document columns].

    Raises
    ------
    DataError
        If the parts do not fit together.
    """

    weights: NDArray[np.float64]
    bias: float
    base: float | None
    n_documents: int
    forests: tuple[SourcedForest, ...] = ()
    forest_of_length: tuple[int, ...] = ()
    term_zeros: Codes = field(default_factory=lambda: np.empty(0, np.int64), repr=False)
    pair_zeros: Codes = field(default_factory=lambda: np.empty(0, np.int64), repr=False)
    pair_turned: NDArray[np.int32] = field(
        default_factory=lambda: np.empty(0, np.int32), repr=False
    )
    document_codes: Codes = field(default_factory=lambda: np.empty((0, 0), np.int64), repr=False)

    def __post_init__(self) -> None:
        KernelObfuscation(base=self.base)  # refuses a base below 2
        n_features = N_SOFT_FEATURES + bool(self.forests)
        if self.weights.shape != (n_features,) or self.weights.dtype != np.float64:
            _refuse(f"{n_features} weights are needed")
        if not bool(np.isfinite(self.weights).all()) or not np.isfinite(self.bias):
            _refuse("weights and bias are finite")
        self._check_columns()
        if bool(self.forests) != bool(self.forest_of_length) or not all(
            0 <= forest < len(self.forests) for forest in self.forest_of_length
        ):
            _refuse("lengths of queries do not fit the forests")
        for forest in self.forests:
            self._check_forest(forest)

    def _check_columns(self) -> None:
        zeros = (self.term_zeros, self.pair_zeros)
        if any(codes.ndim != 1 or codes.dtype != np.int64 for codes in zeros):
            _refuse("codes of 0 are one vector of 64-bit numbers")
        n = len(self.pair_zeros)
        turned = self.pair_turned
        if turned.shape != (n,) or turned.dtype != np.int32 or not _within(turned, n):
            _refuse("turned columns do not fit the columns of pairs")
        rows = self.document_codes
        if rows.ndim != 2 or rows.dtype != np.int64 or (
            self.forests and len(rows) != self.n_documents
        ):  # fmt: skip
            _refuse("one row of document codes for each document is needed")

    def _check_forest(self, sourced: SourcedForest) -> None:
        forest, sources, spread = sourced
        if sources.shape != (forest.n_columns, 4) or sources.dtype != np.int32:
            _refuse("each column of a forest needs a source")
        if not 0 < spread < float("inf"):
            _refuse("a spread is above 0")
        kinds, first, second, columns = sources.T
        widths = [len(self.term_zeros), len(self.pair_zeros), self.document_codes.shape[1]]
        sound = _within(kinds, len(widths)) and all(
            _within(columns[kinds == kind], width) for kind, width in enumerate(widths)
        )
        term, pair = kinds == TERM_SOURCE, kinds == PAIR_SOURCE
        places = _within(first[term | pair], MOST_PLACES) and _within(second[pair], MOST_PLACES)
        if not sound or not places or not bool((first[pair] < second[pair]).all()):
            _refuse("a source is of no known kind, place or column")

    def forest_for(self, n_terms: int) -> SourcedForest | None:
        """Return the forest for a query of so many different terms; None without trees."""
        if not self.forests:
            return None
        return self.forests[self.forest_of_length[min(n_terms, len(self.forest_of_length) - 1)]]

    def encode(self) -> bytes:
        """Return the content of the box."""
        header = {
            "format": FORMAT,
            "n_documents": self.n_documents,
            "base": self.base,
            "bias": self.bias,
            "spreads": [one.spread for one in self.forests],
            "forest_of_length": list(self.forest_of_length),
        }
        arrays: dict[str, NDArray[Any]] = {name: getattr(self, name) for name in _OWN_ARRAYS}
        for number, one in enumerate(self.forests):
            arrays |= {f"{name}_{number}": one.forest.arrays[name] for name in _TREE_ARRAYS}
            arrays[f"sources_{number}"] = one.sources
        return to_bytes(KIND, header, arrays)

    @classmethod
    def decode(cls, content: bytes | memoryview) -> ModelBox:
        """Read a content; the arrays are views of it.

        Raises
        ------
        DataError
            If it is not a sound model.
        """
        # The box's seal stands for its bytes: checksums need not be computed again.
        stored = from_bytes(content, KIND, verify=False, what="a model")  # type: ignore[arg-type]
        try:
            return cls._of(stored.header, dict(stored.arrays))
        except CloisterError:
            raise
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            _refuse(f"cannot be read ({error})")

    @classmethod
    def _of(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> ModelBox:
        if set(header) != _HEADER or header["format"] != FORMAT:
            _refuse(f"the header is not that of format {FORMAT}")
        forests = tuple(
            _forest(number, float(spread), arrays)
            for number, spread in enumerate(header["spreads"])
        )
        if set(arrays) != set(_OWN_ARRAYS):
            _refuse("the arrays are not those of a model")
        base = header["base"]
        return cls(
            bias=float(header["bias"]),
            base=None if base is None else float(base),
            n_documents=int(header["n_documents"]),
            forests=forests,
            forest_of_length=tuple(int(one) for one in header["forest_of_length"]),
            **arrays,
        )


def _forest(number: int, spread: float, arrays: dict[str, NDArray[Any]]) -> SourcedForest:
    """Take a forest's arrays out of all arrays; what is left are the model's own."""
    trees = {name: arrays.pop(f"{name}_{number}") for name in _TREE_ARRAYS}
    sources = arrays.pop(f"sources_{number}")
    return SourcedForest(PrivateForest(n_columns=len(sources), **trees), sources, spread)


def _within(numbers: NDArray[Any], n: int) -> bool:
    return not len(numbers) or bool(numbers.min() >= 0 and numbers.max() < n)


def _refuse(what: str) -> NoReturn:
    raise DataError(what, where="model box", remedy="build the index again")
