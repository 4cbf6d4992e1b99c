"""Global statistics as tables that anybody may get: exact, with a threshold, or noisy.

ESPRESSO calls global statistics non-sensitive. They are not: a term that one document of one pod
holds is in the exact tables, and the tables before and after that pod was added name the pod
(`cloister.adversary.rare_term`). What each form guarantees, against everybody who gets the tables:

- ``exact``: nothing. Every term that anybody uses is listed.
- ``threshold``: terms in fewer than t documents, or in fewer than t pods, are not listed; all other
  numbers are exact. Of a single table, a term that is not listed could be anybody's or nobody's.
  This is no differential privacy, and guarantees nothing against whoever compares two versions (a
  listed term's number goes up by one when a pod is added, and a term appears when its t-th pod is),
  nor against whoever knows all documents but one, or t - 1 pods that hold a term. The number of
  documents and the mean length are exact: two versions tell the length of a document added.
- ``noisy``: differential privacy for a document or a pod; `cloister.search.noisy_statistics`.

Who makes the tables of several servers together sees the exact counts of all of them. Where nobody
may, each server publishes its own, and `added_published` adds them up.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError, SettingsError
from cloister.index.entity_statistics import StatisticsTable
from cloister.index.entity_view import LEVELS, Level
from cloister.privacy.ledger.entry import Receipt
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.level import Level as Unit
from cloister.privacy.release import UnprotectedRelease
from cloister.search.server_contents import JoinedContents, ServerContents, joined_contents

__all__ = [
    "PublishedForm",
    "PublishedStatistics",
    "PublishedTable",
    "added_published",
    "exact_statistics",
    "threshold_statistics",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
PublishedForm = Literal["exact", "threshold", "noisy"]
_KIND: Final = "published-statistics"


@dataclass(frozen=True)
class PublishedTable(StatisticsTable):
    """Published statistics of the entities of one level; an `EntityStatistics`.

    Parameters
    ----------
    floor
        Terms that are not listed, or with less than this, count as in so many entities: a smaller
        number is not known, or is noise. To read it so costs no privacy.

    Examples
    --------
    >>> table = PublishedTable(9, 2.5, 10, {"cough": 7.0, "rash": -3.0}, floor=2.0)
    >>> table.frequencies(["cough", "rash", "gout"]).tolist()
    [7.0, 2.0, 2.0]
    """

    floor: float = 0.0

    def frequencies(self, terms: Sequence[str]) -> Floats:
        """Return in how many entities each term is, as far as that is known."""
        return np.maximum(super().frequencies(terms), self.floor)


@dataclass(frozen=True, eq=False)
class PublishedStatistics:
    """What is published: a table of documents, one of pods, one of servers.

    Examples
    --------
    >>> from cloister.core.ids import ServerId
    >>> from cloister.index.term_counts import count_terms
    >>> counts = count_terms(["cough fever", "cough", "cough huntington"])
    >>> clinic = ServerContents(ServerId("clinic"), counts, np.array([0, 1, 2]))
    >>> exact_statistics([clinic]).level("document").table
    {'cough': 3.0, 'fever': 1.0, 'huntington': 1.0}
    >>> threshold_statistics([clinic], threshold=2).level("pod").table
    {'cough': 3.0}
    """

    form: PublishedForm
    tables: Mapping[Level, PublishedTable] = field(repr=False)

    def level(self, level: Level) -> PublishedTable:
        """Return the statistics of documents, pods or servers."""
        return self.tables[level]

    def to_bytes(self) -> bytes:
        """Return all that is published, the same bytes for the same numbers."""
        tables = {
            level: {
                "n_entities": table.n_entities,
                "mean_length": table.mean_length,
                "n_pairs": table.n_pairs,
                "floor": table.floor,
                "frequencies": dict(table.table),
            }
            for level, table in self.tables.items()
        }
        written = {"kind": _KIND, "form": self.form, "tables": tables}
        return json.dumps(written, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()

    def statement(self) -> bytes:
        """Return what a ledger keeps of the tables: their digest and size."""
        content = self.to_bytes()
        digest = hashlib.sha256(content).hexdigest()
        said = {"kind": _KIND, "form": self.form, "sha256": digest, "size_bytes": len(content)}
        return json.dumps(said, sort_keys=True).encode()

    def record_unprotected(
        self, ledger: Ledger, *, party_id: str, recipient: str, purpose: str
    ) -> Receipt:
        """Record exact tables, or tables with a threshold, on a ledger; send nothing before.

        They have no finite epsilon: a party that has a limit is refused. Noisy tables are recorded
        by `NoisyStatistics.record`.
        """
        return ledger.release(
            self.unprotected_release(),
            self.statement(),
            party_id=party_id,
            recipient=recipient,
            purpose=purpose,
        )

    def unprotected_release(self) -> UnprotectedRelease:
        """Return the record of exact tables, or of tables with a threshold."""
        if self.form == "noisy":
            raise SettingsError("noisy tables have a release of their own", where=_KIND)
        n_values = max(1, sum(len(table.table) for table in self.tables.values()))
        note = f"global statistics, {self.form}"
        return UnprotectedRelease(level=Unit.USER, n_values=n_values, note=note)

    @classmethod
    def from_bytes(cls, content: bytes) -> PublishedStatistics:
        """Read what `to_bytes` made; refuse all else."""
        try:
            read = json.loads(content)
            if read["kind"] != _KIND or read["form"] not in get_args(PublishedForm):
                raise ValueError("another kind of file")
            return cls(read["form"], {level: _table(read["tables"][level]) for level in LEVELS})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise DataError("cannot be read as published statistics", where=_KIND) from None


def _table(read: Mapping[str, Any]) -> PublishedTable:
    listed = {str(term): _finite(n) for term, n in read["frequencies"].items()}
    n_entities, mean_length, n_pairs, floor = (
        _finite(read[name]) for name in ("n_entities", "mean_length", "n_pairs", "floor")
    )
    return PublishedTable(n_entities, mean_length, n_pairs, listed, floor)


def _finite(number: object) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not abs(number) < 1e300:
        raise ValueError("no finite number")
    return float(number)


def exact_statistics(servers: Iterable[ServerContents]) -> PublishedStatistics:
    """Return the exact tables of all documents of some servers. They protect nobody."""
    joined = joined_contents(servers)
    frequencies = {level: joined.frequencies(level) for level in LEVELS}
    return _published("exact", joined, frequencies, frequencies["document"] > 0, 0.0)


def threshold_statistics(
    servers: Iterable[ServerContents], *, threshold: int
) -> PublishedStatistics:
    """Return the tables without the terms that fewer than ``threshold`` documents or pods hold.

    Pods count as well as documents: a term that one person's hundred notes hold is still a rare
    one. What this does not guarantee says the module.
    """
    if threshold < 2:
        raise SettingsError(
            f"must be at least 2 (given: {threshold})",
            where="threshold",
            remedy="take a larger threshold; exact tables are made by exact_statistics",
        )
    joined = joined_contents(servers)
    frequencies = {level: joined.frequencies(level) for level in LEVELS}
    listed = (frequencies["document"] >= threshold) & (frequencies["pod"] >= threshold)
    return _published("threshold", joined, frequencies, listed, threshold / 2)


def _published(
    form: PublishedForm,
    joined: JoinedContents,
    frequencies: Mapping[Level, Integers],
    listed: NDArray[np.bool_],
    floor: float,
) -> PublishedStatistics:
    """Make the tables of the listed terms; the others are not in the number of pairs either.

    Terms are sorted: the order in which they were found would tell of documents.
    """
    places = sorted(np.flatnonzero(listed).tolist(), key=joined.vocabulary.__getitem__)
    terms = [joined.vocabulary[place] for place in places]
    n_tokens = float(joined.lengths.sum())
    tables: dict[Level, PublishedTable] = {}
    for level, n in joined.n_entities.items():
        numbers = frequencies[level][places].astype(np.float64)
        table = dict(zip(terms, numbers.tolist(), strict=True))
        least = min(floor, 0.5) if level == "server" else floor
        mean_length = n_tokens / n if n else 0.0
        tables[level] = PublishedTable(float(n), mean_length, float(numbers.sum()), table, least)
    return PublishedStatistics(form, tables)


def added_published(parts: Sequence[PublishedStatistics]) -> PublishedStatistics:
    """Add up what servers published, each for itself: post-processing, which costs nothing.

    The floors of noisy tables add up as independent noise does; of others the largest holds.
    """
    forms = {part.form for part in parts}
    if len(forms) != 1:
        raise DataError("tables of one form are needed", where="published statistics")
    form = forms.pop()
    return PublishedStatistics(form, {level: _added(parts, level) for level in LEVELS})


def _added(parts: Sequence[PublishedStatistics], level: Level) -> PublishedTable:
    listed = [part.level(level) for part in parts]
    total: dict[str, float] = {}
    for part in listed:
        for term, number in part.table.items():
            total[term] = total.get(term, 0.0) + number
    n = sum(part.n_entities for part in listed)
    n_tokens = sum(part.n_entities * part.mean_length for part in listed)
    floors = np.array([part.floor for part in listed])
    independent = parts[0].form == "noisy" and level != "server"
    floor = float(np.sqrt((floors**2).sum()) if independent else floors.max())
    n_pairs = sum(part.n_pairs for part in listed)
    return PublishedTable(n, n_tokens / n if n else 0.0, n_pairs, total, floor)
