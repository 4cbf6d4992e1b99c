"""The document owner of CS-F-LTR's term-frequency query (algorithm 2)."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import AccessDenied, DataError, NotFound, SettingsError
from cloister.core.ids import checked_id
from cloister.index.term_counts import TermCounts
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.mechanisms import NoiseSource
from cloister.sketch.cell_counts import cell_type, row_cells
from cloister.sketch.keyed_hash import HashKey, SketchShape
from cloister.sketch.per_query_release import Asked, ReleasePolicy
from cloister.sketch.tf_messages import ID_BYTES, TfAnswer, TfQuery

__all__ = ["DocumentOwner", "Unsent", "exact_sketches"]

ANYBODY: Final = "all-queriers"  # the recipient of a release that pays for every answer
PURPOSE: Final = "term-frequency query "  # of a release; the query's id follows
REMEMBERED: Final = 1000  # answers that an owner keeps
REMEMBERED_BYTES: Final = 2**28  # and how much memory they may take
MOST_NUMBERS: Final = 8_000_000  # of one answer: 64 MB at most, which one sealed message carries
NUMBER_BYTES: Final = 8  # of a counter in memory


class _Released(NamedTuple):
    """What has left, its number in the ledger, and the id of the query that it was drawn for."""

    counters: NDArray[Any]
    number: int | None
    query_id: bytes


class Unsent(NamedTuple):
    """An answer that the ledger has recorded and nobody has got yet."""

    number: int
    querier: str
    answer: bytes


class DocumentOwner:
    """Answers queries about its documents (algorithm 2), as its policy and the ledger allow.

    Nothing leaves before the ledger has the record; what would exceed the party's limit is
    refused. A querier that asks the same again gets the same numbers, at no new cost. Threads may
    share an owner: they take turns.

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
    most_numbers
        Counters (terms x rows x documents) that one query may ask for; others are refused before
        anything is read or recorded.
    most_remembered, most_remembered_bytes
        Answers that are kept, and the memory of their counters. The oldest go first; a question
        whose answer was dropped costs again.
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
        most_numbers: int = MOST_NUMBERS,
        most_remembered: int = REMEMBERED,
        most_remembered_bytes: int = REMEMBERED_BYTES,
    ) -> None:
        if most_remembered_bytes < NUMBER_BYTES * most_numbers:
            raise SettingsError(
                f"the largest answer, of {most_numbers} numbers, could not be kept",
                where="most_remembered_bytes",
                remedy="raise it, or lower most_numbers",
            )
        self.party_id = checked_id(party_id)
        self.shape = shape
        self.n_documents = counts.n_documents
        self._fingerprint = key.fingerprint
        self._cells = exact_sketches(counts, key, shape)
        self._policy = policy
        self._ledger = ledger
        self._queriers = frozenset(queriers)
        self._source = source
        self._most_numbers = most_numbers
        self._most_remembered = most_remembered
        self._most_remembered_bytes = most_remembered_bytes
        self._remembered: OrderedDict[tuple[str, bytes], _Released] = OrderedDict()
        self._remembered_bytes = 0
        self._contents: dict[tuple[str, bytes], bytes] = {}  # what the ids of kept answers named
        self._lock = threading.Lock()  # without it two threads would noise the same cells twice
        n_cells = shape.n_cells * counts.n_documents
        self._unpaid = policy.opening(
            shape.n_rows, n_values=max(1, n_cells), simulated=source.simulated
        )

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
        question = (querier, _digest(query))
        with self._lock:
            named = self._contents.get((querier, query.query_id), question[1])
            if named != question[1]:
                raise DataError("the id was used for another query", where=query.query_id.hex())
            released = self._recalled(question, query.query_id)
            if released is None:
                released = self._released(query, querier)
                self._remember(question, released)
        return TfAnswer(query.query_id, released.counters).to_bytes()

    def delivered(self, message: bytes, *, querier: str) -> None:
        """Note that the answer to a query has arrived: the ledger need not keep its bytes."""
        query = TfQuery.from_bytes(message)
        with self._lock:
            released = self._recalled((querier, _digest(query)), query.query_id)
        if released is not None and released.number is not None:
            self._ledger.delivered(released.number)

    def unsent(self) -> Iterator[Unsent]:
        """Give the answers that wait in the ledger, for queriers who may still ask.

        They are paid for: send these bytes, and then call `arrived`. Those of an earlier owner, as
        before a restart, are remembered by their ids, so that their queries cost nothing if they
        come again.
        """
        for entry in self._ledger.pending(party_id=self.party_id):
            if entry.purpose.startswith(PURPOSE) and entry.recipient in self._queriers:
                try:
                    payload = self._ledger.payload(entry.number)
                except NotFound:  # sent meanwhile, by another process
                    continue
                self._restore(entry.number, entry.recipient, TfAnswer.from_bytes(payload))
                yield Unsent(entry.number, entry.recipient, payload)

    def arrived(self, unsent: Unsent) -> None:
        """Note that an answer of `unsent` has been sent."""
        self._ledger.delivered(unsent.number)

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
        n_documents = self.n_documents if query.documents is None else len(query.documents)
        n_numbers = query.columns.size * n_documents
        if n_numbers > self._most_numbers:
            raise DataError(
                f"asks for {n_numbers} counters, where {self._most_numbers} are answered at most",
                where="query",
                remedy="ask for fewer terms or documents at a time",
            )
        if (query.signs is not None) != self._policy.opened:
            wanted = "must" if self._policy.opened else "must not"
            raise DataError(f"{wanted} tell which rows count", where="query")

    def _released(self, query: TfQuery, querier: str) -> _Released:
        """Record an answer, then return it."""
        asked = self._asked(query)
        self._pay_in_advance()
        record = self._policy.record(asked, simulated=self._source.simulated)
        if record is None:
            return _Released(self._policy.noised(asked, self._source), None, query.query_id)
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
            purpose=PURPOSE + query.query_id.hex(),
        )
        return _Released(TfAnswer.from_bytes(drawn[-1]).counters, receipt.number, query.query_id)

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

    def _recalled(self, question: tuple[str, bytes], query_id: bytes) -> _Released | None:
        """Return a kept answer: by what is asked, or by the id where only that is known."""
        by_content = self._remembered.get(question)
        return by_content or self._remembered.get((question[0], query_id))

    def _restore(self, number: int, querier: str, answer: TfAnswer) -> None:
        """Keep an answer of which only the id is known, unless it is kept already."""
        with self._lock:
            if (querier, answer.query_id) not in self._contents:
                kept = _Released(answer.counters, number, answer.query_id)
                self._remember((querier, answer.query_id), kept)

    def _remember(self, question: tuple[str, bytes], released: _Released) -> None:
        """Keep an answer, and drop the oldest while there are too many."""
        self._drop(question)
        self._remembered[question] = released
        self._remembered_bytes += released.counters.nbytes
        querier, content = question
        if len(content) != ID_BYTES:
            self._contents[querier, released.query_id] = content
        while (
            len(self._remembered) > self._most_remembered
            or self._remembered_bytes > self._most_remembered_bytes
        ):
            self._drop(next(iter(self._remembered)))

    def _drop(self, question: tuple[str, bytes]) -> None:
        released = self._remembered.pop(question, None)
        if released is not None:
            self._remembered_bytes -= released.counters.nbytes
            self._contents.pop((question[0], released.query_id), None)


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
