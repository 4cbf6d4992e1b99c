"""Codes of tree features as an index stores them: of words, of pairs, of documents.

All forests of a ranker share scales by the name of a feature without its place in the query: the
term frequency of a word has one scale, whichever place the word takes and however long the query
is. So a value is coded once, when the index is built. A scale's intervals lie between the
thresholds of all places and forests, hence are finer than those of one forest.

What codes guarantee and what they give away is said in `cloister.cloud.private_trees`. They have 32
bits here, which hide as much as 64 do: whoever has the trees has every threshold's code, reads the
interval of a value's code off, and finds nothing in its place inside, which is random.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.model_box import DOCUMENT_SOURCE, PAIR_SOURCE, TERM_SOURCE, SourcedForest
from cloister.cloud.private_trees import TreeCodes
from cloister.core.errors import DataError
from cloister.rank.query_length_forests import QueryLengthForests
from cloister.rank.tree_features import TreeFeatureSettings

__all__ = ["FeatureCodes", "StoredColumn", "feature_scale"]

Codes = NDArray[np.int64]
Values = Mapping[str, NDArray[Any]]

CODE_BITS: Final = 32
_KINDS: Final = {"term": TERM_SOURCE, "pair": PAIR_SOURCE, "document": DOCUMENT_SOURCE}


class StoredColumn(NamedTuple):
    """A column of the codes in a box.

    Parameters
    ----------
    scale
        Name and kind of the scale, see `cloister.cloud.private_trees.TreeCodes.scale`.
    turned
        Whether it is of a pair the other way round than sorted.
    """

    scale: tuple[str, int]
    turned: bool = False


def feature_scale(name: str) -> str:
    """Return the name of a feature without its place.

    Examples
    --------
    >>> feature_scale("tf[2]"), feature_scale("ordered5[1,3]"), feature_scale("prior.length")
    ('tf', 'ordered5', 'prior.length')
    """
    return name.partition("[")[0]


def _places(name: str) -> tuple[int, int]:
    """Return the place, or two, in a feature's name, counted from 0; -1 for none."""
    inside = name.partition("[")[2].rstrip("]")
    found = [int(place) - 1 for place in inside.split(",")] if inside else []
    first, second = (*found, -1, -1)[:2]
    return first, second


class FeatureCodes:
    """Codes of a ranker's tree features, from a secret of the client.

    Parameters
    ----------
    secret
        32 bytes, for these forests and this index alone.
    forests
        Plain ones.
    settings
        The features that they were grown on: of words, pairs and documents only.
    """

    def __init__(
        self, secret: bytes, forests: QueryLengthForests, settings: TreeFeatureSettings
    ) -> None:
        self._features = settings.features
        if any(feature.key not in _KINDS for feature in self._features):
            raise DataError(
                "a feature combines values of the whole query",
                where="FeatureCodes",
                remedy="grow the trees with combined=False",
            )
        lengths = sorted(forests.by_length)
        self._plain = [forests.common, *(forests.by_length[length] for length in lengths)]
        scales = [feature_scale(feature.name) for feature in self._features]
        self._codes = TreeCodes(secret, self._plain, [scales] * len(self._plain), n_bits=CODE_BITS)
        self.forest_of_length = tuple(
            lengths.index(length) + 1 if length in forests.by_length else 0
            for length in range(forests.longest + 1)
        )
        self.term_columns = self._columns("term")
        self.pair_columns = self._columns("pair")
        self.document_columns = self._columns("document")

    def _columns(self, key: str) -> tuple[StoredColumn, ...]:
        scales = {
            self._codes.scale(column, forest)
            for forest in range(len(self._plain))
            for column in self._codes.columns(forest)
            if self._features[column.feature].key == key
        }
        return tuple(
            StoredColumn(scale, turned)
            for scale in sorted(scales)
            for turned in ((False, True) if scale[0].startswith("ordered") else (False,))
        )

    @property
    def pair_turned(self) -> NDArray[np.int32]:
        """The column to read, for each, where a query has a pair the other way round."""
        places = {column: place for place, column in enumerate(self.pair_columns)}
        other = [places.get(c._replace(turned=not c.turned), places[c]) for c in places]
        return np.array(other, np.int32)

    def term_codes(self, values: Values) -> Codes:
        """Return rows of codes for values of words by name, one row a value."""
        return self._coded(self.term_columns, values)

    def pair_codes(self, values: Values, turned: Values) -> Codes:
        """Return rows of codes for values of pairs by name, as sorted and the other way round."""
        return self._coded(self.pair_columns, values, turned)

    def document_codes(self, values: Values) -> Codes:
        """Return rows of codes for values of documents by name."""
        return self._coded(self.document_columns, values)

    @property
    def term_zeros(self) -> Codes:
        """The code that stands for 0 in each column of words."""
        return self._zeros(self.term_columns)

    @property
    def pair_zeros(self) -> Codes:
        """The code that stands for 0 in each column of pairs."""
        return self._zeros(self.pair_columns)

    def private_forests(self) -> tuple[SourcedForest, ...]:
        """Return the trees on codes, with where the codes of their rows come from."""
        return tuple(
            SourcedForest(self._codes.private_forest(number), self._sources(number), one.spread)
            for number, one in enumerate(self._plain)
        )

    def _sources(self, forest: int) -> NDArray[np.int32]:
        stored = {"term": self.term_columns, "pair": self.pair_columns}
        rows = []
        for column in self._codes.columns(forest):
            name, key = self._features[column.feature]
            columns = stored.get(key, self.document_columns)
            place = columns.index(StoredColumn(self._codes.scale(column, forest)))
            rows.append((_KINDS[key], *_places(name), place))
        return np.array(rows, np.int32).reshape(-1, 4)

    def _coded(
        self, columns: Iterable[StoredColumn], values: Values, turned: Values | None = None
    ) -> Codes:
        """Code each column with words from a fresh key: no two columns share any."""
        n = len(next(iter(values.values()))) if values else 0
        parts = [
            self._codes.coded_values(
                scale, _single((turned or values)[scale[0]] if other else values[scale[0]])
            )
            for scale, other in columns
        ]
        return np.stack(parts, axis=1) if parts else np.empty((n, 0), np.int64)

    def _zeros(self, columns: Iterable[StoredColumn]) -> Codes:
        found = [int(self._codes.coded_values(column.scale, [0.0])[0]) for column in columns]
        return np.array(found, np.int64)


def _single(values: NDArray[Any]) -> NDArray[np.float32]:
    """Return values as the rows that trees are grown on have them."""
    return np.asarray(values, np.float32)
