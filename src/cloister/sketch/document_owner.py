"""The document owner of CS-F-LTR's term-frequency query (algorithm 2)."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Collection
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import AccessDenied, DataError, NotFound
from cloister.core.ids import checked_id
from cloister.index.term_counts import TermCounts
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.mechanisms import NoiseSource
from cloister.sketch.cell_counts import cell_type, row_cells
from cloister.sketch.keyed_hash import HashKey, SketchShape
from cloister.sketch.per_query_release import Asked, ReleasePolicy
from cloister.sketch.tf_messages import TfAnswer, TfQuery

__all__ = ["DocumentOwner", "exact_sketches"]

ANYBODY: Final = "all-queriers"  # the recipient of a release that pays for every answer
REMEMBERED: Final = 1000  # answers that an owner keeps


class _Released(NamedTuple):
    """What has left, and its number in the ledger."""

    counters: NDArray[Any]
    number: int | None


class DocumentOwner:
    """Answers queries about its documents (algorithm 2), as its policy and the ledger allow.

    Nothing leaves before the ledger has the record; what would exceed the party's limit is
    refused. A querier that asks the same again gets the same numbers, at no new cost.

    Parameters
    ----------
    party_id
        Whose documents they are.
    counts, key, shape
        The documents and how they are hashed. A changed collection needs a new owner, whose
        answers are new releases.
    policy
        What is done to counters before they leave.
    ledger
        Where every release is recorded. What is recorded protects a token of a document.
    queriers
        Who may ask; nobody else.
    source
        Where the noise comes from: `SecureNoise` wherever anything truly leaves.
    most_remembered
        Answers that are kept; a question whose answer was dropped costs again.
    """

    def __init__(
        self,
        party_id: str,
        counts: TermCounts,
        key: HashKey,
        shape: SketchShape,
        *,
        policy: ReleasePolicy,
        ledger: Ledger,
        queriers: Collection[str],
        source: NoiseSource,
        most_remembered: int = REMEMBERED,
    ) -> None:
        self.party_id = checked_id(party_id)
        self.shape = shape
        self.n_documents = counts.n_documents
        self._fingerprint = key.fingerprint
        self._cells = exact_sketches(counts, key, shape)
        self._policy = policy
        self._ledger = ledger
        self._queriers = frozenset(queriers)
        self._source = source
        self._most_remembered = most_remembered
        self._remembered: OrderedDict[tuple[str, bytes], _Released] = OrderedDict()
        self._contents: dict[tuple[str, bytes], bytes] = {}
        self._unpaid = policy.opening(shape.n_rows, simulated=source.simulated)

    def answer(self, message: bytes, *, querier: str) -> bytes:
        """Answer a query, or refuse it.

        Raises
        ------
        AccessDenied
            The querier may not ask.
        DataError, NotFound
            The query is malformed, for other sketches, or about a document that is not there.
        BudgetExceeded
            The answer would cost more than the party allows.
        """
        if querier not in self._queriers:
            raise AccessDenied("may not ask", where=ascii(querier[:80]))
        query = TfQuery.from_bytes(message)
        self._check(query)
        content = _digest(query)
        if self._contents.setdefault((querier, query.query_id), content) != content:
            raise DataError("the id was used for another query", where=query.query_id.hex())
        remembered = self._remembered.get((querier, content))
        if remembered is None:
            remembered = self._released(query, querier)
            self._remember((querier, content), remembered)
        return TfAnswer(query.query_id, remembered.counters).to_bytes()

    def delivered(self, message: bytes, *, querier: str) -> None:
        """Note that the answer to a query has arrived: the ledger need not keep its bytes."""
        released = self._remembered.get((querier, _digest(TfQuery.from_bytes(message))))
        if released is not None and released.number is not None:
            self._ledger.delivered(released.number)

    def _check(self, query: TfQuery) -> None:
        if query.key_fingerprint != self._fingerprint:
            raise DataError("made with another hash key", where="query")
        if query.shape != self.shape:
            raise DataError(
                f"for sketches of {query.shape.n_rows} x {query.shape.n_columns}; these have "
                f"{self.shape.n_rows} x {self.shape.n_columns}",
                where="query",
            )
        if query.documents is not None and query.documents.max() >= self.n_documents:
            raise NotFound("no such document", where="query")
        if (query.signs is not None) != self._policy.opened:
            wanted = "must" if self._policy.opened else "must not"
            raise DataError(f"{wanted} tell which rows count", where="query")

    def _released(self, query: TfQuery, querier: str) -> _Released:
        """Record an answer, then return it."""
        asked = self._asked(query)
        self._pay_in_advance()
        record = self._policy.record(asked, simulated=self._source.simulated)
        if record is None:
            return _Released(self._policy.noised(asked, self._source), None)
        drawn: list[bytes] = []

        def payload(_: object) -> bytes:  # called once the limit allows it, and perhaps again
            counters = self._policy.noised(asked, self._source)
            drawn.append(TfAnswer(query.query_id, counters).to_bytes())
            return drawn[-1]

        receipt = self._ledger.release(
            record,
            payload,
            party_id=self.party_id,
            recipient=querier,
            purpose=f"term-frequency query {query.query_id.hex()}",
        )
        return _Released(TfAnswer.from_bytes(drawn[-1]).counters, receipt.number)

    def _pay_in_advance(self) -> None:
        """Record what pays for all answers, where the policy has such a thing, before the first."""
        if self._unpaid is not None:
            receipt = self._ledger.release(
                self._unpaid,
                b"cells are noised when they are first asked for",
                party_id=self.party_id,
                recipient=ANYBODY,
                purpose="term-frequency queries, any number",
            )
            self._ledger.delivered(receipt.number)
            self._unpaid = None

    def _asked(self, query: TfQuery) -> Asked:
        rows = np.arange(self.shape.n_rows)
        places = rows * self.shape.n_columns + query.columns.astype(np.int64)
        documents = np.arange(self.n_documents) if query.documents is None else query.documents
        if query.documents is None:
            counters = self._cells[rows, query.columns]
        else:
            counters = self._cells[
                rows[None, :, None], query.columns[:, :, None], documents[None, None, :]
            ]
        return Asked(places, documents, counters.astype(np.int64), query.signs)

    def _remember(self, question: tuple[str, bytes], released: _Released) -> None:
        self._remembered[question] = released
        while len(self._remembered) > self._most_remembered:
            self._remembered.popitem(last=False)


def _digest(query: TfQuery) -> bytes:
    """Name what is asked, whatever its id."""
    return hashlib.sha256(query.content()).digest()


def exact_sketches(counts: TermCounts, key: HashKey, shape: SketchShape) -> NDArray[Any]:
    """Return the Count Sketches of all documents: rows x columns x documents."""
    hashed = key.hash_terms(counts.vocabulary, shape)
    cells = np.empty((shape.n_rows, shape.n_columns, counts.n_documents), cell_type(counts))
    for row in range(shape.n_rows):
        row_cells(counts, hashed, row, out=cells[row])
    return cells
