"""The term-frequency query of CS-F-LTR (algorithms 1 and 2): querier and document owner.

Both are state machines without a network: messages in, messages out. The querier hashes its terms,
keeps to itself which rows count, and estimates from the counters that come back, with the sign that
eq. 6 of the paper leaves out. The owner, :mod:`cloister.sketch.document_owner`, reads its exact
sketches, and lets nothing go that its policy has not noised and the ledger has not recorded.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError, NotFound, SettingsError
from cloister.sketch.keyed_hash import HashKey, SketchShape
from cloister.sketch.medians import column_medians
from cloister.sketch.tf_messages import ID_BYTES, MOST_TERMS, TfAnswer, TfQuery

__all__ = ["Estimates", "Querier"]

Floats = NDArray[np.float64]


class Estimates(NamedTuple):
    """What a querier makes of an answer.

    Parameters
    ----------
    total
        Estimated occurrences of all terms together, by document (theorem 3).
    terms
        Terms x documents: of each term alone; empty where the owner took the median.
    """

    total: Floats
    terms: Floats


class _Hidden(NamedTuple):
    """Which rows count for some terms, and the columns of all rows, decoys among them."""

    rows: NDArray[np.int64]  # PV of eq. 4
    columns: NDArray[np.uint32]  # terms x rows
    signs: NDArray[np.int8]  # terms x rows


class _Private(NamedTuple):
    """What the querier keeps to itself."""

    rows: NDArray[np.int64]  # PV of eq. 4
    signs: NDArray[np.int8]  # terms x rows that count
    n_rows: int
    n_documents: int | None  # None for all
    opened: bool

    def fits(self, counters: NDArray[Any]) -> bool:
        """Say whether counters can be an answer."""
        n_terms, n_rows = (1, 1) if self.opened else (len(self.signs), self.n_rows)
        n_documents = counters.shape[2] if self.n_documents is None else self.n_documents
        return counters.shape == (n_terms, n_rows, n_documents)


class Querier:
    """Asks for the frequency of terms in documents that it does not see (algorithm 1).

    Parameters
    ----------
    key, shape
        The hash functions that the parties agreed on.
    n_true_rows
        Rows that carry the terms (z1); the others carry decoys. All rows unless given: the paper
        has no default, and decoys cost accuracy while they hide next to nothing from an owner, who
        holds the key (5 of 30 rows give the term away in 95 % of trials). What keeps a query from
        the server is that it is sealed.
    vocabulary
        Terms that decoys are hashed from; needed where there are any.
    rng
        Draws the rows that count and the decoys; seed it from the system's random source where
        they are to hide anything.

    Examples
    --------
    >>> querier = Querier(HashKey(bytes(32)), SketchShape(n_rows=5, n_columns=50), n_true_rows=3,
    ...                   vocabulary=["fever", "rash"], rng=np.random.default_rng(1))
    >>> query = querier.ask(["cough"])
    >>> query.columns.shape, query.signs is None
    ((1, 5), True)
    """

    def __init__(
        self,
        key: HashKey,
        shape: SketchShape,
        *,
        n_true_rows: int | None = None,
        vocabulary: Sequence[str] = (),
        rng: np.random.Generator,
    ) -> None:
        self.n_true_rows = shape.n_rows if n_true_rows is None else n_true_rows
        if not 1 <= self.n_true_rows <= shape.n_rows:
            raise SettingsError(f"from 1 to {shape.n_rows} rows can count", where="n_true_rows")
        if self.n_true_rows < shape.n_rows and not len(vocabulary):
            raise SettingsError("decoys need terms to be hashed from", where="vocabulary")
        self.shape = shape
        self._key = key
        self._vocabulary = vocabulary
        self._rng = rng
        self._asked: dict[tuple[Any, ...], TfQuery] = {}
        self._hidden: dict[tuple[str, ...], _Hidden] = {}
        self._private: dict[bytes, _Private] = {}

    def ask(
        self,
        terms: Sequence[str],
        documents: Sequence[int] | None = None,
        *,
        open_rows: bool = False,
    ) -> TfQuery:
        """Return a query for some terms; the same question gives the same query again.

        Asked twice with other rows and decoys, the columns that stay would be the true ones. So
        the same terms, in the same order, keep their rows and decoys, whatever documents they are
        asked of, as long as this object lives. A term in another combination, or after a restart,
        gets new ones: an owner who links such queries can intersect them.

        Parameters
        ----------
        terms
            One or more. All share one set of rows that count: the estimator sums the counters of a
            row over the terms, which needs rows that count for all of them.
        documents
            Which documents, by number; all of them unless given.
        open_rows
            Tell the owner which rows count, and the signs, so that it can take the median.
        """
        question = (tuple(terms), None if documents is None else tuple(documents), open_rows)
        if question not in self._asked:
            self._asked[question] = self._new_query(terms, documents, open_rows)
        return self._asked[question]

    def estimate(self, answer: TfAnswer) -> Estimates:
        """Return what the counters say of the terms' frequencies; once or as often as one likes.

        The median over the rows that count of sign times counter: eq. 6 with the sign.
        """
        private = self._private.get(answer.query_id)
        if private is None:
            raise NotFound("no such query was asked", where=answer.query_id.hex())
        if not private.fits(answer.counters):
            raise DataError("the answer does not fit the query", where=answer.query_id.hex())
        if private.opened:
            return Estimates(answer.counters[0, 0] / 2, np.empty((0, answer.counters.shape[2])))
        return signed_medians(answer.counters[:, private.rows], private.signs)

    def _new_query(
        self, terms: Sequence[str], documents: Sequence[int] | None, open_rows: bool
    ) -> TfQuery:
        hidden = self._hidden_in(tuple(terms))
        signs = np.zeros_like(hidden.signs)
        signs[:, hidden.rows] = hidden.signs[:, hidden.rows]
        query = TfQuery(
            secrets.token_bytes(ID_BYTES),
            self._key.fingerprint,
            self.shape,
            hidden.columns,
            None if documents is None else np.array(documents, np.int64),
            signs if open_rows else None,
        )
        query.check()
        n_documents = None if documents is None else len(documents)
        self._private[query.query_id] = _Private(
            hidden.rows, hidden.signs[:, hidden.rows], self.shape.n_rows, n_documents, open_rows
        )
        return query

    def _hidden_in(self, terms: tuple[str, ...]) -> _Hidden:
        """Return the rows and decoys of some terms: those of before, or new ones."""
        if terms not in self._hidden:
            if not 1 <= len(terms) <= MOST_TERMS:
                raise SettingsError(f"a query has 1 to {MOST_TERMS} terms", where="terms")
            hashed = self._key.hash_terms(terms, self.shape)
            n_rows = self.shape.n_rows
            # Eq. 4: the first z1 of a random permutation; the estimate ignores their order.
            rows = np.sort(self._rng.permutation(n_rows)[: self.n_true_rows])
            columns = hashed.columns.copy()
            decoys = np.setdiff1d(np.arange(n_rows), rows)
            if len(decoys):
                columns[:, decoys] = self._decoys(len(terms))[:, decoys]
            self._hidden[terms] = _Hidden(rows, columns, hashed.signs)
        return self._hidden[terms]

    def _decoys(self, n_terms: int) -> NDArray[np.uint32]:
        """Hash a term drawn anew for each term and row."""
        n_rows = self.shape.n_rows
        drawn = self._rng.integers(len(self._vocabulary), size=n_terms * n_rows)
        hashed = self._key.hash_terms([self._vocabulary[i] for i in drawn.tolist()], self.shape)
        own_rows = np.tile(np.arange(n_rows), n_terms)
        return hashed.columns[np.arange(len(drawn)), own_rows].reshape(n_terms, n_rows)


def signed_medians(counters: NDArray[Any], signs: NDArray[np.int8]) -> Estimates:
    """Estimate from counters of rows that count.

    Parameters
    ----------
    counters
        Terms x rows x documents.
    signs
        Terms x rows.

    Examples
    --------
    >>> counters = np.array([[[4.0], [-5.0], [-6.0]]])  # one term, three rows, one document
    >>> signed_medians(counters, np.array([[1, -1, -1]], np.int8)).total
    array([5.])
    """
    signed = counters * signs[:, :, None].astype(np.float64)
    terms = np.array([column_medians(np.ascontiguousarray(term)) for term in signed])
    total = terms[0] if len(terms) == 1 else column_medians(signed.sum(0))
    return Estimates(total, terms)
