"""Statistics of all terms that a user may read, for TF-IDF: its vectors have a length.

The length of a vector needs the IDF of every term in it. So summaries with all terms are turned
into arrays, once for each version of a server, and what is made of them is kept until a version
changes:

- the lengths of the servers' own vectors (ESPRESSO, equations 13 to 16, with a server as the
  entity), by which servers are ranked;
- for each server that is asked for documents, a table of the terms that the user may read *there*.
  Its documents hold no others, so that no other is needed for their lengths. Only the query's own
  terms are in the table besides.

Whoever keeps a server learns from such a table in how many documents, or pods, of all servers each
term of that server is for this user; of published statistics only what is public. Which terms the
user reads elsewhere it does not learn, but for those of the query. A term that becomes readable
there between the two requests counts as one that nobody has, for that one query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.ids import ServerId
from cloister.index.entity_statistics import StatisticsTable
from cloister.index.entity_view import Level
from cloister.index.entity_weights import EntityStatistics, inverse_frequencies
from cloister.search.node import ServerSummary, SubQuery

__all__ = ["AllTermStatistics"]

Floats = NDArray[np.float64]


class _ServerTerms(NamedTuple):
    """The terms that the user may read on a server, in their order, and what is said of them."""

    version: int
    is_entity: bool  # whether any document may be read
    terms: list[str]
    places: NDArray[np.int64]  # in arrays that all servers share
    frequencies: Mapping[Level, Floats]
    occurrences: Floats


class AllTermStatistics:
    """What TF-IDF takes from summaries with all terms. One object serves one thread at a time.

    Parameters
    ----------
    published
        Statistics of each level, of which N and df are taken; the user's own, added up over the
        servers, where not given. They are asked for once, and may not change.

    Examples
    --------
    >>> from cloister.search.node import LevelSummary, TermSummary
    >>> def server(name, terms):
    ...     found = {term: TermSummary(1, 1, 1) for term in terms}
    ...     size = LevelSummary(1, 0)
    ...     return ServerSummary(ServerId(name), 1, len(terms), size, size, 0, found)
    >>> known = AllTermStatistics()
    >>> known.update([server("a", ["cough", "rash"]), server("b", ["cough", "gout"])])
    >>> query = StatisticsTable(2, 2.0, 0, {"cough": 2.0})
    >>> known.table(ServerId("a"), "document", query).table
    {'cough': 2.0, 'rash': 1.0}
    """

    def __init__(self, published: Mapping[Level, EntityStatistics] | None = None) -> None:
        self._published = published or {}
        self._numbers: dict[str, int] = {}  # of all terms that were ever seen
        self._known: dict[ServerId, _ServerTerms] = {}
        self._servers: list[ServerId] = []
        self._state: object = None
        self._added: dict[Level, Floats] = {}
        self._norms: dict[str, Floats] = {}
        self._tables: dict[tuple[ServerId, Level], StatisticsTable] = {}

    def update(self, summaries: Sequence[ServerSummary]) -> None:
        """Take the summaries that hold now; those of known versions are not looked at again.

        Raises
        ------
        DataError
            If a summary does not hold all terms.
        """
        state = [(one.server_id, one.version) for one in summaries]
        if state == self._state:
            return
        self._state = None
        for one in summaries:
            known = self._known.get(one.server_id)
            if known is None or known.version != one.version:
                self._known[one.server_id] = self._read(one)
        self._servers = [one.server_id for one in summaries]
        self._added.clear()
        self._norms.clear()
        self._tables.clear()
        self._state = state

    def norms(self, form: Literal["non_negative", "printed"]) -> Floats:
        """Return the length of each server's TF-IDF vector, in the order of the summaries."""
        if form not in self._norms:
            n = self._n_servers()
            squares = [
                np.sum((known.occurrences * inverse_frequencies(df, n, form)) ** 2)
                for known, df in (
                    (self._known[name], self._frequencies(name, "server")) for name in self._servers
                )
            ]
            self._norms[form] = np.sqrt(np.array(squares, np.float64))
        return self._norms[form]

    def narrowed(self, query: SubQuery, server_id: ServerId) -> SubQuery:
        """Return a query with the statistics that one server needs, in the place of its own.

        Parameters
        ----------
        query
            With statistics of its terms over all servers.
        """
        documents, pods = query.document_statistics, query.pod_statistics
        return query._replace(
            document_statistics=documents and self.table(server_id, "document", documents),
            pod_statistics=pods and self.table(server_id, "pod", pods),
        )

    def table(self, server_id: ServerId, level: Level, query: StatisticsTable) -> StatisticsTable:
        """Return the statistics that one server needs to rank by.

        It is the same object until a version changes, unless a term of the query is on other
        servers only: servers keep the lengths of vectors for it.

        Parameters
        ----------
        query
            Statistics of the query's terms over all servers.
        """
        key = (server_id, level)
        if key not in self._tables:
            df = self._frequencies(server_id, level).tolist()
            held = dict(zip(self._known[server_id].terms, df, strict=True))
            self._tables[key] = replace(query, table=held)
        found = self._tables[key]
        others = {t: df for t, df in query.table.items() if df and t not in found.table}
        return replace(found, table={**found.table, **others}) if others else found

    def _n_servers(self) -> float:
        if "server" in self._published:
            return float(self._published["server"].n_entities)
        return float(sum(self._known[name].is_entity for name in self._servers))

    def _frequencies(self, server_id: ServerId, level: Level) -> Floats:
        """Return in how many entities of all servers each term of one server is."""
        known = self._known[server_id]
        if level in self._published:
            return np.maximum(self._published[level].frequencies(known.terms), 0.0)
        if level not in self._added:
            sums = self._added[level] = np.zeros(len(self._numbers))
            for name in self._servers:
                one = self._known[name]
                sums[one.places] += one.frequencies[level]  # a term has one place
        added: Floats = self._added[level][known.places]
        return added

    def _read(self, summary: ServerSummary) -> _ServerTerms:
        found = sorted((term, one) for term, one in summary.terms.items() if one.n_documents)
        if sum(one.n_occurrences for _, one in found) != summary.n_tokens:
            raise DataError(
                "TF-IDF needs summaries with all terms",
                where=summary.server_id,
                remedy="ask with SummaryRequest.all_terms",
            )
        terms, numbers, n = [term for term, _ in found], self._numbers, len(found)
        return _ServerTerms(
            summary.version,
            summary.documents.n_entities > 0,
            terms,
            np.fromiter((numbers.setdefault(t, len(numbers)) for t in terms), np.int64, n),
            {
                "document": np.fromiter((one.n_documents for _, one in found), np.float64, n),
                "pod": np.fromiter((one.n_pods for _, one in found), np.float64, n),
                "server": np.ones(n),
            },
            np.fromiter((one.n_occurrences for _, one in found), np.float64, n),
        )
