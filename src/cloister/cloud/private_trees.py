"""Private trees: forests that compare secret codes in the place of feature values.

The thresholds that trees put on a feature, sorted, get secret increasing codes; a value gets a
random code from the interval between the codes of its two neighbouring thresholds. The trees hold
the thresholds' codes. ``value <= threshold`` holds just where ``code <= threshold's code`` does, so
every comparison has the same outcome and scores are those of the plain forest to the last bit
(the comparison-preserving mapping of Ji et al., SIGIR 2018).

The codes come from AES-256-CTR under a key that HKDF-SHA256 derives from the client's secret, the
scale's name and its thresholds: other thresholds have unrelated codes. The random code of a value
comes from words that do not depend on the value.

**What holds**, against a server that has trees and coded rows but not the secret, as long as
AES-256 and the secret do: of a value it learns the interval between two thresholds and nothing
finer; equal values do not show. Of a threshold it learns the place among the others.

**What does not.** The interval's place is in the open, so codes sort values nearly as the values
themselves do: with 100 thresholds on a feature the rank correlation is 0.9999
(:mod:`cloister.cloud.code_leakage` measures it). Shape of the trees, which column a node asks,
values of leaves, and each row's path and score are in the open. Whoever knows the value of some
rows learns bounds on thresholds and on the values of all others.

Missing values are decided here, as LightGBM decides them: NaN counts as 0 where the trees know no
missing values; where they do, NaN (or 0, where 0 stands for missing) gets a code of the lowest or
the highest interval, whichever sends it the tree's default way. The server cannot tell it from
other values of that interval. Numbers up to 1e-35 away from 0 count as 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.flat_trees import MISSING_SHIFT, flat_trees
from cloister.cloud.private_trees_kernel import code_values, score_rows, trees_are_sound
from cloister.core.errors import DataError, SettingsError
from cloister.privacy.mechanisms.aes_noise import AesWords, Words
from cloister.privacy.sealed.handshake import hkdf_sha256
from cloister.rank.forest import Forest
from cloister.rank.labelled_rows import feature_matrix

__all__ = ["CodeColumn", "PrivateForest", "ThresholdCodes", "TreeCodes"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
CodeBits = Literal[32, 64]

SECRET_BYTES: Final = 32
_PURPOSE: Final = {64: b"cloister private trees 1", 32: b"cloister private trees 1, 32 bits"}
_DEFAULT_LEFT: Final = 2  # a bit of LightGBM's decision type


class CodeColumn(NamedTuple):
    """A column of coded rows: a feature, as trees with one way of missing values see it."""

    feature: int
    kind: int  # LightGBM's decision type; 0 where no value is missing


class ThresholdCodes(NamedTuple):
    """The client's secret of one scale: its thresholds, and the last code of each interval."""

    thresholds: Floats  # rising
    ends: Integers  # one more: of the interval above all thresholds

    def coded(self, values: NDArray[Any], kind: int, words: Words, *, purpose: int = 0) -> Integers:
        """Return a random code of each value's interval."""
        values = np.ascontiguousarray(values, np.float64)
        drawn = np.empty(len(values), np.uint64)
        words.fill(drawn, purpose=purpose, first=0)
        codes = np.empty(len(values), np.int64)
        missing, to_left = kind >> MISSING_SHIFT, bool(kind & _DEFAULT_LEFT)
        code_values(values, self.thresholds, self.ends, missing, to_left, drawn, codes)
        return codes


@dataclass(frozen=True, eq=False)
class PrivateForest:
    """What the server has: trees on codes, without the key; checked, since a client sent it.

    Trees share flat arrays. A child of at least 0 is a node, one below is the leaf ``-1 - child``;
    a node's children come after it.

    Parameters
    ----------
    roots
        Of each tree.
    columns, codes
        Which column a node asks, and up to which code it goes left.
    left, right
        Children of nodes.
    values
        Of leaves.
    n_columns
        Codes of a row.

    Raises
    ------
    DataError
        If the arrays do not make trees of so many columns.
    """

    roots: NDArray[np.int32] = field(repr=False)
    columns: NDArray[np.int32] = field(repr=False)
    codes: Integers = field(repr=False)
    left: NDArray[np.int32] = field(repr=False)
    right: NDArray[np.int32] = field(repr=False)
    values: Floats = field(repr=False)
    n_columns: int

    def __post_init__(self) -> None:
        types = {"codes": np.int64, "values": np.float64}
        sound = all(
            array.ndim == 1
            and array.dtype == types.get(name, np.int32)
            and array.flags.c_contiguous
            for name, array in self.arrays.items()
        )
        n_nodes = {len(part) for part in (self.columns, self.codes, self.left, self.right)}
        if (
            not sound
            or len(n_nodes) != 1
            or not bool(np.isfinite(self.values).all())
            or not trees_are_sound(
                self.roots, self.columns, self.left, self.right, len(self.values), self.n_columns
            )
        ):
            raise DataError("the arrays do not make trees", where="PrivateForest")

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.roots)

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """The arrays by name, for storing them; with ``n_columns`` they make the forest again."""
        names = ("roots", "columns", "codes", "left", "right", "values")
        return {name: getattr(self, name) for name in names}

    def score(self, coded: NDArray[Any]) -> Floats:
        """Score coded rows; LightGBM is not needed."""
        rows = np.ascontiguousarray(coded)
        if rows.ndim != 2 or rows.shape[1] != self.n_columns or rows.dtype != np.int64:
            raise DataError(f"rows of {self.n_columns} codes are needed", where="coded")
        scores = np.zeros(len(rows))
        trees = (self.roots, self.columns, self.codes, self.left, self.right, self.values)
        score_rows(rows, *trees, scores)
        return scores


class TreeCodes:
    """The client's side: codes for the thresholds of one or more forests, from one secret.

    Features that measure the same thing (the frequency of the first query term, and of the second;
    in the forest for two terms, and in that for three) can share a scale: a value is then coded
    once and serves all of them. Its intervals are those between the thresholds of all of them,
    hence finer, and tell more.

    Parameters
    ----------
    secret
        32 bytes that the client keeps.
    forests
        Plain ones.
    scales
        For each forest the scale of each feature; where not given, each has its own.
    n_bits
        Of a code: 64 or 32. An interval has 2^32 codes at least, or 2^16, so equal codes of two
        values are rare or less so; they tell that the interval is the same and nothing more. So 32
        bits hide as much, in half the space. They hold 16,000 thresholds a scale.

    Examples
    --------
    >>> from cloister.rank.forest import fit_forest
    >>> from cloister.data.ranking_data import RankingData
    >>> rng = np.random.default_rng(0)
    >>> features, labels = rng.random((200, 2)), rng.integers(0, 2, 200).astype(np.int8)
    >>> plain = fit_forest(RankingData(features, labels, np.array([0, 100, 200])))
    >>> codes = TreeCodes(bytes(32), [plain])
    >>> private = codes.private_forest()
    >>> bool((private.score(codes.coded_rows(features)) == plain.score(features)).all())
    True
    """

    def __init__(
        self,
        secret: bytes,
        forests: Sequence[Forest],
        scales: Sequence[Sequence[str]] | None = None,
        *,
        n_bits: CodeBits = 64,
    ) -> None:
        if len(secret) != SECRET_BYTES:
            raise SettingsError(f"a secret of {SECRET_BYTES} bytes is needed", where="TreeCodes")
        self._n_features = [forest.n_features for forest in forests]
        self._scales = [tuple(names) for names in scales or _own_scales(self._n_features)]
        if [len(names) for names in self._scales] != self._n_features:
            raise SettingsError("each feature of each forest needs a scale", where="scales")
        self._trees = [flat_trees(forest) for forest in forests]
        self._by_scale = {
            scale: ThresholdCodes(found, _secret_ends(secret, scale, found, n_bits))
            for scale, found in self._thresholds().items()
        }

    def n_features(self, forest: int = 0) -> int:
        """Return the length of a forest's feature vectors."""
        return self._n_features[forest]

    def columns(self, forest: int = 0) -> list[CodeColumn]:
        """Return the columns of a forest's coded rows; a feature without a split has none."""
        trees = self._trees[forest]
        pairs = set(zip(trees.features.tolist(), trees.kinds.tolist(), strict=True))
        return [CodeColumn(feature, kind) for feature, kind in sorted(pairs)]

    def scale(self, column: CodeColumn, forest: int = 0) -> tuple[str, int]:
        """Return the name and the kind of a column's scale; columns alike in both share codes."""
        return self._scales[forest][column.feature], column.kind

    def thresholds(self, column: CodeColumn, forest: int = 0) -> Floats:
        """Return the thresholds of a column's scale, rising."""
        return self._by_scale[self.scale(column, forest)].thresholds

    def private_forest(self, forest: int = 0) -> PrivateForest:
        """Return a forest's trees on codes: what the server may have."""
        trees, columns = self._trees[forest], self.columns(forest)
        places = {column: place for place, column in enumerate(columns)}
        asked = np.empty(len(trees.features), np.int32)
        codes = np.empty(len(trees.features), np.int64)
        for column, place in places.items():
            nodes = (trees.features == column.feature) & (trees.kinds == column.kind)
            book = self._by_scale[self.scale(column, forest)]
            asked[nodes] = place
            codes[nodes] = book.ends[np.searchsorted(book.thresholds, trees.thresholds[nodes])]
        return PrivateForest(
            trees.roots, asked, codes, trees.left, trees.right, trees.values, len(columns)
        )

    def coded_rows(self, rows: Any, forest: int = 0, words: Words | None = None) -> Integers:
        """Return rows of features as a forest's private trees take them.

        Parameters
        ----------
        rows
            A matrix or a data set.
        words
            Where the randomness comes from: a fresh key from the operating system if not given.
            The same words must not code two sets of rows.
        """
        matrix = feature_matrix(rows, self._n_features[forest])
        words = AesWords() if words is None else words
        columns = self.columns(forest)
        coded = np.empty((len(matrix), len(columns)), np.int64)
        for place, column in enumerate(columns):
            book = self._by_scale[self.scale(column, forest)]
            values = matrix[:, column.feature]
            coded[:, place] = book.coded(values, column.kind, words, purpose=place)
        return coded

    def coded_values(self, scale: tuple[str, int], values: Any, words: Words | None = None) -> Any:
        """Return codes of single values on a scale, for the columns that share it."""
        if scale not in self._by_scale:
            raise DataError("no tree asks for this scale", where=repr(scale))
        words = AesWords() if words is None else words
        return self._by_scale[scale].coded(np.asarray(values), scale[1], words)

    def _thresholds(self) -> dict[tuple[str, int], Floats]:
        parts: dict[tuple[str, int], list[Floats]] = {}
        for forest, trees in enumerate(self._trees):
            for column in self.columns(forest):
                asks = (trees.features == column.feature) & (trees.kinds == column.kind)
                parts.setdefault(self.scale(column, forest), []).append(trees.thresholds[asks])
        return {scale: np.unique(np.concatenate(found)) for scale, found in parts.items()}

    def __repr__(self) -> str:
        return f"TreeCodes(n_forests={len(self._trees)}, n_scales={len(self._by_scale)})"


def _own_scales(n_features: Sequence[int]) -> list[list[str]]:
    return [[f"{forest}:{f}" for f in range(n)] for forest, n in enumerate(n_features)]


def _secret_ends(
    secret: bytes, scale: tuple[str, int], thresholds: Floats, n_bits: CodeBits
) -> Integers:
    """Return secret rising codes: sorted uniform words of n - 2 bits, each gap widened alike."""
    least_gap = 1 << (n_bits // 2)
    if len(thresholds) >= 1 << (n_bits - 2 - n_bits // 2):
        raise SettingsError(
            f"{len(thresholds)} thresholds on {scale[0]} are too many for {n_bits} bits",
            where="TreeCodes",
            remedy="take 64 bits, or fewer trees",
        )
    name = hashlib.sha256(repr(scale).encode()).digest()
    content = hashlib.sha256(thresholds.astype("<f8").tobytes()).digest()
    info = _PURPOSE[n_bits] + name + content
    key = hkdf_sha256(secret, salt=b"", info=info, n_bytes=SECRET_BYTES)
    drawn = np.empty(len(thresholds), np.uint64)
    AesWords(key).fill(drawn, purpose=0, first=0)
    codes = np.sort(drawn >> np.uint64(66 - n_bits)).astype(np.int64)
    codes += least_gap * np.arange(1, len(codes) + 1)
    return np.append(codes, 2 ** (n_bits - 1) - 1)
